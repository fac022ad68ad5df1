//! The fields of a new charge as they were given, in JSON or as a form.
//!
//! A name that is not known is refused: a mistyped one would be dropped without a word, and the
//! charge made without it. Payment SDKs send more than this API acts on; those names are passed
//! over one by one.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Number, Value};

use super::form;
use super::problem::Problem;

/// What payment SDKs send and this API does not act on. A form has `metadata[order]` for a member.
/// What would change the charge if it were acted on, such as `capture`, is not among them.
const PASSED_OVER: [&str; 13] = [
    "confirm",
    "customer",
    "expand",
    "metadata",
    "payment_method",
    "payment_method_types",
    "receipt_email",
    "shipping",
    "source",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "transfer_group",
    "radar_options",
];

/// The longest name that an error repeats.
const MAX_SHOWN_NAME: usize = 40;

/// The fields that this API acts on.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) amount: Option<Given>,
    pub(super) currency: Option<Given>,
    pub(super) description: Option<Given>,
}

/// A value as it was given.
pub(super) enum Given {
    Text(String),
    Number(Number),
    Other,
}

/// What is wrong with the names of the fields.
enum Fault {
    Unknown(String),
    Twice(&'static str),
}

impl Fields {
    /// Reads an object in JSON.
    pub(super) fn from_json(body: &[u8]) -> Result<Self, Problem> {
        let read: JsonFields = serde_json::from_slice(body).map_err(|error| {
            // The error's own text may quote the body.
            let (line, column) = (error.line(), error.column());
            Problem::unreadable(format!(
                "the JSON is not the object that it must be: line {line} column {column}"
            ))
        })?;
        match read.fault {
            // As for what the parser finds itself.
            Some(Fault::Twice(name)) => Err(Problem::unreadable(format!("{name} is there twice"))),
            Some(Fault::Unknown(name)) => Err(unknown(&name)),
            None => Ok(read.fields),
        }
    }

    /// Reads a form.
    pub(super) fn from_form(body: &[u8]) -> Result<Self, Problem> {
        let pairs = form::pairs(body).map_err(|fault| Problem::unreadable(fault.to_string()))?;
        let mut fields = Self::default();
        for (name, value) in pairs {
            match fields.place(&name) {
                Place::Field(param, field) => {
                    if field.replace(Given::Text(value)).is_some() {
                        let message = format!("{param} is there twice");
                        return Err(Problem::parameter(param, "parameter_duplicated", message));
                    }
                }
                Place::PassedOver => {}
                Place::Unknown => return Err(unknown(&name)),
            }
        }
        Ok(fields)
    }

    /// Where the field of this name goes.
    fn place(&mut self, name: &str) -> Place<'_> {
        match name {
            "amount" => Place::Field("amount", &mut self.amount),
            "currency" => Place::Field("currency", &mut self.currency),
            "description" => Place::Field("description", &mut self.description),
            name => {
                let whole = name.split('[').next().unwrap_or_default();
                match PASSED_OVER.contains(&whole) {
                    true => Place::PassedOver,
                    false => Place::Unknown,
                }
            }
        }
    }
}

enum Place<'a> {
    Field(&'static str, &'a mut Option<Given>),
    PassedOver,
    Unknown,
}

/// An object's fields, and the first fault of their names. The rest of the object is read all the
/// same: JSON that is broken further on is told as that.
#[derive(Default)]
struct JsonFields {
    fields: Fields,
    fault: Option<Fault>,
}

impl<'de> Deserialize<'de> for JsonFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = JsonFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonFields, A::Error> {
        let mut read = JsonFields::default();
        let mut seen: Vec<&'static str> = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            let fault = match read.fields.place(&name) {
                Place::Field(param, field) => {
                    let given = members.next_value::<Option<Value>>()?.map(Given::from);
                    // A number in quotes is a form's way; in JSON it is a mistake.
                    let given = match given {
                        Some(Given::Text(_)) if param == "amount" => Some(Given::Other),
                        given => given,
                    };
                    *field = given;
                    if seen.contains(&param) {
                        Some(Fault::Twice(param))
                    } else {
                        seen.push(param);
                        None
                    }
                }
                Place::PassedOver => {
                    members.next_value::<IgnoredAny>()?;
                    None
                }
                Place::Unknown => {
                    members.next_value::<IgnoredAny>()?;
                    Some(Fault::Unknown(name))
                }
            };
            read.fault = read.fault.or(fault);
        }
        Ok(read)
    }
}

impl From<Value> for Given {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Number(number) => Self::Number(number),
            _ => Self::Other,
        }
    }
}

/// Names the field where its name looks like one: what does not is not repeated.
fn unknown(name: &str) -> Problem {
    const CODE: &str = "parameter_unknown";
    const TAKES: &str = "a charge takes amount, currency and description";
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    if name.is_empty() || name.len() > MAX_SHOWN_NAME || !name.bytes().all(is_name) {
        return Problem::bad_request(
            CODE,
            format!("a field has a name that is not known; {TAKES}"),
        );
    }
    Problem::parameter(name.to_owned(), CODE, format!("{name} is not known; {TAKES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_in(read: Result<Fields, Problem>) -> (&'static str, Value) {
        let problem = read.map(|_| "accepted").unwrap_err();
        let body: Value = problem.to_reply().decode_json().unwrap();
        (problem.code(), body["error"]["param"].clone())
    }

    #[test]
    fn a_mistyped_name_is_refused_and_named_in_both_encodings() {
        let json = br#"{"ammount":1999,"currency":"eur"}"#;
        assert_eq!(unknown_in(Fields::from_json(json)), ("parameter_unknown", "ammount".into()));
        let json = br#"{"amount":1999,"currency":"eur","Description":"Tea"}"#;
        assert_eq!(
            unknown_in(Fields::from_json(json)),
            ("parameter_unknown", "Description".into())
        );
        let form = b"amount=1999&currency=eur&metadaat[order]=7";
        let named = Value::from("metadaat[order]");
        assert_eq!(unknown_in(Fields::from_form(form)), ("parameter_unknown", named));
        // It would change what is charged.
        let form = b"amount=1999&currency=eur&capture=false";
        assert_eq!(unknown_in(Fields::from_form(form)), ("parameter_unknown", "capture".into()));
    }

    #[test]
    fn what_does_not_look_like_a_name_is_not_repeated() {
        for name in ["", "4242 4242", "é", &"x".repeat(41), "a\\u001b"] {
            let body = format!(r#"{{"amount":1,"currency":"eur","{name}":1}}"#);
            let unknown = unknown_in(Fields::from_json(body.as_bytes()));
            assert_eq!(unknown, ("parameter_unknown", Value::Null), "{name}");
        }
    }

    #[test]
    fn what_sdks_send_is_passed_over() {
        for name in PASSED_OVER {
            assert!(Fields::from_form(format!("{name}=x&{name}[a]=y").as_bytes()).is_ok());
            assert!(Fields::from_json(format!(r#"{{"{name}":{{"a":[1]}}}}"#).as_bytes()).is_ok());
        }
    }

    #[test]
    fn json_that_is_broken_after_an_unknown_name_is_told_as_broken() {
        assert_eq!(
            unknown_in(Fields::from_json(br#"{"ammount":1"#)),
            ("body_invalid", Value::Null)
        );
    }
}

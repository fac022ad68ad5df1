//! What a client asks for, checked before anything is done about it.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::currency;
use super::form;
use super::problem::Problem;
use crate::network::{MAX_AMOUNT, MAX_DESCRIPTION_BYTES};

/// A charge that may be made. `Debug` shows none of it (R24).
#[derive(Clone, PartialEq, Eq)]
pub struct NewCharge {
    /// In minor units (cents): 1 to [`MAX_AMOUNT`].
    pub amount: u64,
    /// A known code, in lower case.
    pub currency: &'static str,
    /// What for: at most [`MAX_DESCRIPTION_BYTES`], never empty.
    pub description: Option<String>,
}

impl NewCharge {
    /// Reads `amount`, `currency` and `description` from a body in JSON or in a form's encoding.
    /// Fields that are not known are passed over, as payment SDKs send many.
    ///
    /// # Errors
    /// A [`Problem`] that names the first field that is wrong: 415 for another content type, 400
    /// for the rest.
    pub fn read(content_type: Option<&[u8]>, body: &[u8]) -> Result<Self, Problem> {
        let fields = match essence(content_type).as_deref() {
            Some(b"application/json") => Fields::from_json(body)?,
            Some(b"application/x-www-form-urlencoded") => Fields::from_form(body)?,
            _ => return Err(Problem::content_type()),
        };
        Ok(Self {
            amount: amount(fields.amount)?,
            currency: known_currency(fields.currency)?,
            description: description(fields.description)?,
        })
    }
}

impl fmt::Debug for NewCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewCharge").finish_non_exhaustive()
    }
}

/// The fields as they were given, in either encoding.
#[derive(Default)]
struct Fields {
    amount: Option<Given>,
    currency: Option<Given>,
    description: Option<Given>,
}

enum Given {
    Text(String),
    Number(Number),
    Other,
}

/// The same from JSON. A name that is there twice is an error of its parser.
#[derive(Deserialize)]
struct JsonFields {
    amount: Option<Value>,
    currency: Option<Value>,
    description: Option<Value>,
}

impl Fields {
    fn from_json(body: &[u8]) -> Result<Self, Problem> {
        // An array would be taken for the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(Problem::unreadable("the JSON must be an object"));
        }
        let json: JsonFields = serde_json::from_slice(body).map_err(|error| {
            // The error's own text may quote the body.
            let (line, column) = (error.line(), error.column());
            Problem::unreadable(format!(
                "the JSON is not what it must be: line {line} column {column}"
            ))
        })?;
        let given = |value: Option<Value>| {
            value.map(|value| match value {
                Value::String(text) => Given::Text(text),
                Value::Number(number) => Given::Number(number),
                _ => Given::Other,
            })
        };
        // A number in quotes is a form's way; in JSON it is a mistake.
        let amount = given(json.amount).map(|amount| match amount {
            Given::Text(_) => Given::Other,
            amount => amount,
        });
        let (currency, description) = (given(json.currency), given(json.description));
        Ok(Self { amount, currency, description })
    }

    fn from_form(body: &[u8]) -> Result<Self, Problem> {
        let pairs = form::pairs(body).map_err(|fault| Problem::unreadable(fault.to_string()))?;
        let mut fields = Self::default();
        for (name, value) in pairs {
            let (param, field) = match name.as_str() {
                "amount" => ("amount", &mut fields.amount),
                "currency" => ("currency", &mut fields.currency),
                "description" => ("description", &mut fields.description),
                _ => continue,
            };
            if field.replace(Given::Text(value)).is_some() {
                return Err(Problem::parameter(
                    param,
                    "parameter_duplicated",
                    format!("{param} is there twice"),
                ));
            }
        }
        Ok(fields)
    }
}

fn amount(given: Option<Given>) -> Result<u64, Problem> {
    let not_an_integer = || {
        let message = "amount must be a whole number of minor units, such as cents";
        Problem::parameter("amount", "parameter_invalid_integer", message)
    };
    let amount = match given {
        None => return Err(missing("amount")),
        Some(Given::Text(text)) => digits(&text).ok_or_else(not_an_integer)?,
        Some(Given::Number(number)) => whole(&number).ok_or_else(not_an_integer)?,
        Some(Given::Other) => return Err(not_an_integer()),
    };
    u64::try_from(amount).ok().filter(|amount| (1..=MAX_AMOUNT).contains(amount)).ok_or_else(|| {
        let message = format!("amount must be 1 to {MAX_AMOUNT} minor units");
        Problem::parameter("amount", "amount_out_of_range", message)
    })
}

/// The number that a form's decimal digits are, with a minus sign or without.
fn digits(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The whole number that a JSON number is: `20`, `20.0` and `2e1` mean the same to the
/// fingerprint (R22), so they must to us.
fn whole(number: &Number) -> Option<i128> {
    /// From here on not every whole number has a floating-point form of its own.
    const EXACT: f64 = (1_u64 << 53) as f64;
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i128)
}

fn known_currency(given: Option<Given>) -> Result<&'static str, Problem> {
    let known = match given {
        None => return Err(missing("currency")),
        Some(Given::Text(code)) => currency::known(&code),
        Some(_) => None,
    };
    known.ok_or_else(|| {
        let message = "currency must be a three-letter code of ISO 4217, such as eur";
        Problem::parameter("currency", "currency_unknown", message)
    })
}

fn description(given: Option<Given>) -> Result<Option<String>, Problem> {
    match given {
        None => Ok(None),
        Some(Given::Text(text)) if text.is_empty() => Ok(None),
        Some(Given::Text(text)) if text.len() <= MAX_DESCRIPTION_BYTES => Ok(Some(text)),
        Some(_) => {
            let message =
                format!("description must be text of at most {MAX_DESCRIPTION_BYTES} bytes");
            Err(Problem::parameter("description", "parameter_invalid", message))
        }
    }
}

fn missing(param: &'static str) -> Problem {
    Problem::parameter(param, "parameter_missing", format!("{param} is missing"))
}

/// The content type without its parameters, in lower case.
fn essence(content_type: Option<&[u8]>) -> Option<Vec<u8>> {
    let essence = content_type?.split(|&byte| byte == b';').next()?;
    Some(essence.trim_ascii().to_ascii_lowercase())
}

impl Problem {
    fn content_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_type_unsupported",
            "the body must be application/json or application/x-www-form-urlencoded",
        )
    }

    fn unreadable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "body_invalid", message)
    }

    fn parameter(param: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).about(param)
    }
}

#[cfg(test)]
#[path = "new_charge_tests.rs"]
mod tests;

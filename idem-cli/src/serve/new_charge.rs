//! What a client asks for, checked before anything is done about it.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use serde_json::Number;

use super::currency;
use super::fields::{Fields, Given};
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
    /// Reads `amount`, `currency` and `description` from a body in JSON or in a form's encoding, in
    /// UTF-8. Some fields that payment SDKs send are passed over; a name that is not known is
    /// refused.
    ///
    /// # Errors
    /// A [`Problem`] that names the first field that is wrong: 415 for another content type or
    /// charset, 400 for the rest.
    pub fn read(content_type: Option<&[u8]>, body: &[u8]) -> Result<Self, Problem> {
        let content_type = ContentType::read(content_type.unwrap_or_default());
        let read = match &content_type.essence[..] {
            b"application/json" => Fields::from_json,
            b"application/x-www-form-urlencoded" => Fields::from_form,
            _ => return Err(Problem::content_type()),
        };
        if !content_type.is_utf8 {
            return Err(Problem::charset());
        }
        let fields = read(body)?;
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

/// What a content type says about how to read a body.
struct ContentType {
    /// Without parameters, in lower case.
    essence: Vec<u8>,
    /// Whether no charset is named, or UTF-8, or ASCII, which is a part of it.
    is_utf8: bool,
}

impl ContentType {
    fn read(value: &[u8]) -> Self {
        let mut parts = value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut is_utf8 = true;
        for parameter in parts {
            let at = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
            let (name, value) = parameter.split_at(at);
            if name.eq_ignore_ascii_case(b"charset") {
                let value = value.strip_prefix(b"=").unwrap_or_default();
                let value = value.strip_prefix(b"\"").unwrap_or(value);
                let value = value.strip_suffix(b"\"").unwrap_or(value).to_ascii_lowercase();
                is_utf8 &= matches!(&value[..], b"utf-8" | b"utf8" | b"us-ascii");
            }
        }
        Self { essence, is_utf8 }
    }
}

impl Problem {
    fn content_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_type_unsupported",
            "the body must be application/json or application/x-www-form-urlencoded",
        )
    }

    fn charset() -> Self {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, "charset_unsupported", "the body must be in UTF-8")
    }

    pub(super) fn unreadable(message: impl Into<String>) -> Self {
        Self::bad_request("body_invalid", message)
    }

    pub(super) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(super) fn parameter(
        param: impl Into<Cow<'static, str>>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::bad_request(code, message).about(param)
    }
}

#[cfg(test)]
#[path = "new_charge_tests.rs"]
mod tests;

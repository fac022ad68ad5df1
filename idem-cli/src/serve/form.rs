//! Bodies of type `application/x-www-form-urlencoded`, decoded strictly: what is not UTF-8 or not
//! percent-encoded as it must be is an error, not a guess.

/// The pairs of a form, in their order. Empty parts, as in `a=1&&b=2`, are left out.
pub(super) fn pairs(body: &[u8]) -> Result<Vec<(String, String)>, FormFault> {
    let parts = body.split(|&byte| byte == b'&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let at = part.iter().position(|&byte| byte == b'=').unwrap_or(part.len());
            let value = part.get(at + 1..).unwrap_or_default();
            Ok((decoded(&part[..at])?, decoded(value)?))
        })
        .collect()
}

/// Why a body is not a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormFault {
    /// A `%` without two hexadecimal digits after it.
    #[error("the form holds a % that two hexadecimal digits do not follow")]
    Percent,
    /// A name or a value that is not UTF-8.
    #[error("the form holds text that is not UTF-8")]
    NotUtf8,
}

fn decoded(text: &[u8]) -> Result<String, FormFault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let high = rest.next().and_then(hex).ok_or(FormFault::Percent)?;
                let low = rest.next().and_then(hex).ok_or(FormFault::Percent)?;
                high << 4 | low
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| FormFault::NotUtf8)
}

fn hex(digit: &u8) -> Option<u8> {
    let value = char::from(*digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Vec<(String, String)> {
        pairs(body.as_bytes()).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn names_and_values_are_decoded() {
        assert_eq!(
            read("amount=1999&description=Caf%C3%A9+%26+th%c3%a9&metadata%5Border%5D=7"),
            [
                pair("amount", "1999"),
                pair("description", "Café & thé"),
                pair("metadata[order]", "7"),
            ]
        );
    }

    #[test]
    fn empty_parts_and_missing_values_are_forms_too() {
        assert_eq!(read(""), []);
        assert_eq!(read("&&"), []);
        assert_eq!(
            read("a&b=&=c&d=e=f"),
            [pair("a", ""), pair("b", ""), pair("", "c"), pair("d", "e=f"),]
        );
    }

    #[test]
    fn what_cannot_be_decoded_is_an_error() {
        for body in ["a=%", "a=%4", "a=%4g", "%zz=1", "a=%\u{e9}1"] {
            assert_eq!(pairs(body.as_bytes()), Err(FormFault::Percent), "{body}");
        }
        assert_eq!(pairs(b"a=%ff"), Err(FormFault::NotUtf8));
        assert_eq!(pairs(b"\xff=1"), Err(FormFault::NotUtf8));
    }
}

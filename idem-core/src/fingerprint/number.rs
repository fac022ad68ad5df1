//! A JSON number by its exact decimal value.

use super::json::Unclear;

/// The most digits of an exponent, as written (leading zeros aside) and in the canonical form. No
/// handler computes with more, and so many fit 64 bits, also while the decimal point is moved.
const MAX_EXPONENT_DIGITS: u32 = 18;

/// A number as it is written.
pub(super) struct Number<'t> {
    negative: bool,
    whole: &'t [u8],
    fraction: &'t [u8],
    exponent_negative: bool,
    exponent: &'t [u8],
}

impl<'t> Number<'t> {
    /// Reads the number at the start of `text` (RFC 8259, section 6), and gives what follows it.
    pub(super) fn read(text: &'t [u8]) -> Result<(Self, &'t [u8]), Unclear> {
        let (negative, text) = take(text, b"-");
        let (whole, mut rest) = digits(text)?;
        if whole.len() > 1 && whole[0] == b'0' {
            return Err(Unclear::NotJson);
        }
        let mut number =
            Self { negative, whole, fraction: b"", exponent_negative: false, exponent: b"" };
        if let (true, after) = take(rest, b".") {
            (number.fraction, rest) = digits(after)?;
        }
        if let (true, after) = take(rest, b"eE") {
            let (signed, unsigned) = take(after, b"+-");
            number.exponent_negative = signed && after[0] == b'-';
            (number.exponent, rest) = digits(unsigned)?;
        }
        Ok((number, rest))
    }

    /// Writes it in its canonical form: a minus, the digits without zeros at either end, and the
    /// power of ten if it is not 0, after an `e`. Zero is `0`, or `-0` when it has a minus: a
    /// handler that reads floating point can tell the two apart.
    ///
    /// Nothing is ever expanded: `1e999999999` costs as much as `1e1`.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Unclear> {
        if self.negative {
            out.push(b'-');
        }
        let start = out.len();
        let leading = self.whole.iter().chain(self.fraction).take_while(|digit| **digit == b'0');
        let significant = self.whole.iter().chain(self.fraction).skip(leading.count());
        out.extend(significant);
        if out.len() == start {
            out.push(b'0');
            return Ok(());
        }
        let trailing = out.iter().rev().take_while(|digit| **digit == b'0').count();
        out.truncate(out.len() - trailing);
        let power = self.written_exponent()? + trailing as i64 - self.fraction.len() as i64;
        if power.unsigned_abs() >= 10_u64.pow(MAX_EXPONENT_DIGITS) {
            return Err(Unclear::HugeExponent);
        }
        if power != 0 {
            out.extend_from_slice(format!("e{power}").as_bytes());
        }
        Ok(())
    }

    fn written_exponent(&self) -> Result<i64, Unclear> {
        let zeros = self.exponent.iter().take_while(|digit| **digit == b'0').count();
        let digits = &self.exponent[zeros..];
        if digits.len() > MAX_EXPONENT_DIGITS as usize {
            return Err(Unclear::HugeExponent);
        }
        let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        Ok(if self.exponent_negative { -value } else { value })
    }
}

/// Whether `text` begins with one of these bytes, and what follows it.
fn take<'t>(text: &'t [u8], any_of: &[u8]) -> (bool, &'t [u8]) {
    match text.split_first() {
        Some((first, rest)) if any_of.contains(first) => (true, rest),
        _ => (false, text),
    }
}

/// One digit or more, and what follows them.
fn digits(text: &[u8]) -> Result<(&[u8], &[u8]), Unclear> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(Unclear::NotJson);
    }
    Ok(text.split_at(count))
}

//! Where a listing goes on, as text.

use idem_core::store::Cursor;

use super::show::hex;

/// As it is printed.
pub(super) fn show(cursor: &Cursor) -> String {
    hex(cursor.as_bytes())
}

/// What [`show`] wrote. Whether it belongs to this listing is for the store to say.
pub(super) fn parse(text: &str) -> Result<Cursor, &'static str> {
    const WRONG: &str = "a cursor is what the page before printed";
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(WRONG);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() {
        return Err(WRONG);
    }
    let bytes = pairs.iter().map(|[high, low]| Ok((digit(*high)? << 4 | digit(*low)?) as u8));
    Ok(Cursor::from_bytes(bytes.collect::<Result<Vec<u8>, &'static str>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text_and_nothing_else_is_one() {
        let cursor = Cursor::from_bytes([0, 1, 0xab, 0xff]);
        assert_eq!(show(&cursor), "0001abff");
        assert_eq!(parse(&show(&cursor)).unwrap(), cursor);
        for text in ["", "0", "0g", "é", "000"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

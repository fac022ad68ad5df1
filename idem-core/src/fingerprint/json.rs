//! JSON by meaning: members in any order, any white space, any spelling of a string or a number.

use std::borrow::Cow;

use crate::fingerprint::number;

/// How deep arrays and objects may nest. A body that nests deeper is hashed as it is.
pub const MAX_NESTING: usize = 128;

/// The canonical bytes of a JSON text, or `None` when it has no single meaning: invalid JSON or
/// UTF-8, repeated member names, lone surrogates, nesting past the limit, or an exponent past 64
/// bits. It is then hashed as it is.
///
/// Each value is a tag and what it holds, with lengths, so that no two values share bytes:
/// `z` null, `t` true, `f` false, `n` number, `s` string, `[` … `]`, `{` … `}` with members
/// ordered by the UTF-8 bytes of their names.
pub(super) fn canonical(body: &[u8]) -> Option<Vec<u8>> {
    let mut parser = Parser { text: std::str::from_utf8(body).ok()?, at: 0 };
    let mut canonical = Vec::with_capacity(body.len());
    parser.white_space();
    parser.value(&mut canonical, 0)?;
    parser.white_space();
    (parser.at == body.len()).then_some(canonical)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        match self.peek()? {
            b'{' if depth < MAX_NESTING => self.object(out, depth + 1),
            b'[' if depth < MAX_NESTING => self.array(out, depth + 1),
            b'"' => {
                let text = self.string()?;
                push(out, b's', text.as_bytes())
            }
            b'-' | b'0'..=b'9' => {
                let number = self.number()?;
                push(out, b'n', number::canonical(number)?.as_bytes())
            }
            b't' => self.literal("true", b't', out),
            b'f' => self.literal("false", b'f', out),
            b'n' => self.literal("null", b'z', out),
            _ => None,
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        self.at += 1;
        let mut members: Vec<(Cow<'t, str>, Vec<u8>)> = Vec::new();
        self.white_space();
        if !self.take(b'}') {
            loop {
                self.white_space();
                let name = self.string()?;
                self.white_space();
                self.expect(b':')?;
                self.white_space();
                let mut value = Vec::new();
                self.value(&mut value, depth)?;
                members.push((name, value));
                self.white_space();
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        members.sort_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        out.push(b'{');
        for (name, value) in members {
            push(out, b's', name.as_bytes())?;
            out.extend_from_slice(&value);
        }
        out.push(b'}');
        Some(())
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        self.at += 1;
        out.push(b'[');
        self.white_space();
        if !self.take(b']') {
            loop {
                self.white_space();
                self.value(out, depth)?;
                self.white_space();
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b']')?;
        }
        out.push(b']');
        Some(())
    }

    fn string(&mut self) -> Option<Cow<'t, str>> {
        self.expect(b'"')?;
        let mut start = self.at;
        let mut decoded = String::new();
        loop {
            match self.peek()? {
                b'"' => {
                    let tail = &self.text[start..self.at];
                    self.at += 1;
                    return Some(if decoded.is_empty() {
                        Cow::Borrowed(tail)
                    } else {
                        decoded.push_str(tail);
                        Cow::Owned(decoded)
                    });
                }
                b'\\' => {
                    decoded.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    decoded.push(self.escape()?);
                    start = self.at;
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let escape = self.peek()?;
        self.at += 1;
        Some(match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                if !(0xd800..0xdc00).contains(&unit) {
                    return char::from_u32(unit); // `None` for a lone low surrogate.
                }
                self.expect(b'\\')?;
                self.expect(b'u')?;
                let low = self.unit().filter(|low| (0xdc00..0xe000).contains(low))?;
                return char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self) -> Option<&'t str> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Some(&self.text[start..self.at])
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn literal(&mut self, word: &str, tag: u8, out: &mut Vec<u8>) -> Option<()> {
        if !self.text[self.at..].starts_with(word) {
            return None;
        }
        self.at += word.len();
        out.push(tag);
        Some(())
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }
}

fn push(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) -> Option<()> {
    out.push(tag);
    out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

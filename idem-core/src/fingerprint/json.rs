//! JSON by meaning: members in any order, any white space, any spelling of a string or a number.

use std::ops::Range;

use super::number::Number;
use super::string;

/// How deep arrays and objects may nest. A body that nests deeper is hashed as it is.
pub const MAX_NESTING: usize = 128;

/// Why a JSON text has no canonical form, so that it counts as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// It is not JSON as RFC 8259 has it, or not UTF-8.
    NotJson,
    /// Readers take the first or the last of two members with one name, or refuse both.
    RepeatedName,
    /// Half of a surrogate pair is no character.
    LoneSurrogate,
    /// It nests deeper than [`MAX_NESTING`].
    TooDeep,
    /// A number's exponent has too many digits.
    HugeExponent,
}

/// The canonical form of a JSON text: JSON without white space, the members of each object sorted
/// by the bytes of their names as they are written here, strings and numbers in one spelling each.
///
/// Any total order would do. This one is what sorting the written members as bytes gives, in any
/// language; RFC 8785 sorts by UTF-16 units instead.
///
/// Less than twice as long as the text: only a number can grow, as `1.1` to `11e-1`.
pub(super) fn canonical(text: &[u8]) -> Result<Vec<u8>, Unclear> {
    if std::str::from_utf8(text).is_err() {
        return Err(Unclear::NotJson);
    }
    let out = Vec::with_capacity(text.len());
    let mut writer = Canonicalizer { rest: text, out, members: Vec::new(), depth: 0 };
    writer.value()?;
    writer.skip_white_space();
    if writer.rest.is_empty() { Ok(writer.out) } else { Err(Unclear::NotJson) }
}

/// Reads from `rest` and writes to `out` as it goes.
///
/// It recurses, and the nesting limit bounds that: a deeper text is left at once.
struct Canonicalizer<'t> {
    rest: &'t [u8],
    out: Vec<u8>,
    /// The members that were written of the objects that are still open, the innermost last.
    members: Vec<Member>,
    depth: usize,
}

/// Where a member stands in the output. Its name begins where it begins.
#[derive(Clone, Copy)]
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Member {
    fn name<'o>(&self, out: &'o [u8]) -> &'o [u8] {
        &out[self.start..self.name_end]
    }

    fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl Canonicalizer<'_> {
    fn value(&mut self) -> Result<(), Unclear> {
        self.skip_white_space();
        match self.rest.first() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => Err(Unclear::NotJson),
        }
    }

    fn nested(&mut self, contents: fn(&mut Self) -> Result<(), Unclear>) -> Result<(), Unclear> {
        if self.depth == MAX_NESTING {
            return Err(Unclear::TooDeep);
        }
        self.depth += 1;
        contents(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Unclear> {
        self.copy(b'[')?;
        self.skip_white_space();
        if self.rest.first() != Some(&b']') {
            self.value()?;
            while self.separator() {
                self.value()?;
            }
        }
        self.copy(b']')
    }

    fn object(&mut self) -> Result<(), Unclear> {
        self.copy(b'{')?;
        let first = self.members.len();
        self.skip_white_space();
        if self.rest.first() != Some(&b'}') {
            self.member()?;
            while self.separator() {
                self.member()?;
            }
        }
        self.sort_members(first)?;
        self.copy(b'}')
    }

    fn member(&mut self) -> Result<(), Unclear> {
        self.skip_white_space();
        let start = self.out.len();
        self.string()?;
        let name_end = self.out.len();
        self.skip_white_space();
        self.copy(b':')?;
        self.value()?;
        self.members.push(Member { start, name_end, end: self.out.len() });
        Ok(())
    }

    /// Sorts the members from `first` on, which are those of the innermost object: they end the
    /// output, with a comma between each two.
    fn sort_members(&mut self, first: usize) -> Result<(), Unclear> {
        let (members, out) = (&mut self.members[first..], &self.out);
        if !members.is_sorted_by(|a, b| a.name(out) < b.name(out)) {
            let start = members[0].start;
            members.sort_unstable_by(|a, b| a.name(out).cmp(b.name(out)));
            if members.windows(2).any(|pair| pair[0].name(out) == pair[1].name(out)) {
                return Err(Unclear::RepeatedName);
            }
            let mut sorted = Vec::with_capacity(out.len() - start + 1);
            for member in members {
                sorted.extend_from_slice(&out[member.range()]);
                sorted.push(b',');
            }
            sorted.pop();
            self.out.truncate(start);
            self.out.append(&mut sorted);
        }
        self.members.truncate(first);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Unclear> {
        self.copy(b'"')?;
        loop {
            let plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
            let run = self.rest.iter().take_while(plain).count();
            self.out.extend_from_slice(&self.rest[..run]);
            self.rest = &self.rest[run..];
            if self.rest.first() != Some(&b'\\') {
                return self.copy(b'"');
            }
            let (character, length) = string::read_escape(self.rest)?;
            string::write(character, &mut self.out);
            self.rest = &self.rest[length..];
        }
    }

    fn number(&mut self) -> Result<(), Unclear> {
        let (number, rest) = Number::read(self.rest)?;
        self.rest = rest;
        number.write(&mut self.out)
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Unclear> {
        self.rest = self.rest.strip_prefix(word).ok_or(Unclear::NotJson)?;
        self.out.extend_from_slice(word);
        Ok(())
    }

    /// Whether a comma follows; it is copied.
    fn separator(&mut self) -> bool {
        self.skip_white_space();
        self.copy(b',').is_ok()
    }

    /// Copies this byte, which must be the next one.
    fn copy(&mut self, byte: u8) -> Result<(), Unclear> {
        self.rest = self.rest.strip_prefix(&[byte]).ok_or(Unclear::NotJson)?;
        self.out.push(byte);
        Ok(())
    }

    fn skip_white_space(&mut self) {
        let white = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.rest = &self.rest[self.rest.iter().take_while(white).count()..];
    }
}

//! Identities that somebody's database, client or script takes for one.

use super::Identities;

pub(super) struct Battery {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) identities: Identities,
}

pub(super) const BATTERIES: &[Battery] = &[
    Battery {
        name: "case",
        about: "keys and scopes that differ by case are different",
        identities: || {
            let uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
            let upper = uuid.to_uppercase();
            [of_keys(["key", "KEY", "Key", uuid, &upper]), of_scopes(["s", "S", "ß", "ss", "SS"])]
                .concat()
        },
    },
    Battery {
        name: "accents",
        about: "keys and scopes that differ by an accent, or by its encoding, are different",
        identities: || {
            // One é of one code point, one of two, one in Latin-1, and none.
            let keys = of_bytes([b"caf\xc3\xa9", b"cafe\xcc\x81", b"caf\xe9", b"cafe"]);
            [keys, of_scopes(["café", "cafe\u{301}", "cafe", "ﬁ", "fi", "Å", "\u{212b}"])].concat()
        },
    },
    Battery {
        name: "trailing_space",
        about: "space at either end, tabs and line ends belong to a key and to a scope",
        identities: || {
            let forms = ["k", "k ", "k  ", " k", "k\t", "k\n", "k\r\n", "k\u{a0}"];
            [of_keys(forms), of_scopes(forms)].concat()
        },
    },
    Battery {
        name: "nul",
        about: "a NUL neither ends a key nor a scope, nor is it padding",
        identities: || {
            let keys = of_bytes([b"k", b"k\0", b"k\0\0", b"k\0a", b"k\0b", b"\0", b"\0k"]);
            [keys, of_scopes(["s", "s\0", "s\0a", "s\0b", "\0s"])].concat()
        },
    },
    Battery {
        name: "braces",
        about: "braces, colons and other marks of a key-value store steer nothing",
        identities: || {
            let forms = ["{a}", "{b}", "{}", "a{b}c", "}{", "a:b", "a::b", "a/b", "*", "?", "[a]"];
            [of_keys(forms), of_scopes(forms)].concat()
        },
    },
    Battery {
        name: "quotes",
        about: "quotes, backslashes, wildcards and placeholders are letters like any other",
        identities: || {
            let forms = ["'", "''", "\"", "\\", "\\'", "%", "_", "a%", "a_", "$1", "?1", "--", ";"];
            [of_keys(forms), of_scopes(forms)].concat()
        },
    },
    Battery {
        name: "numbers",
        about: "keys that look like numbers are compared as bytes, not by value",
        identities: || of_keys(["7", "07", "007", "7.0", "+7", "7e0", "0x7", "1e3", "1000", "NaN"]),
    },
    Battery {
        name: "one_byte",
        about: "each of the 256 keys of one byte is a key of its own",
        identities: || (0..=255_u8).map(|byte| ("s".to_owned(), vec![byte])).collect(),
    },
    Battery {
        name: "longest",
        about: "keys of 255 bytes that differ in their last one are different; nothing is cut",
        identities: || {
            let long = |last: u8| [vec![b'x'; 254], vec![last]].concat();
            let keys = [long(b'a'), long(b'b'), long(0), vec![b'x'; 254], vec![b'x'; 253]];
            keys.map(|key| ("s".to_owned(), key)).to_vec()
        },
    },
    Battery {
        name: "not_text",
        about: "keys that are not UTF-8 are keys of their own, and none becomes U+FFFD",
        identities: || {
            let keys: [&[u8]; 6] =
                [b"\xff", b"\xfe", b"\xef\xbf\xbd", b"\xc3\x28", b"\xed\xa0\x80", b"\x80\x80"];
            of_bytes(keys)
        },
    },
    Battery {
        name: "splits",
        about: "scopes and keys that join to the same string are different identities",
        identities: || {
            let pairs =
                [("a", "bc"), ("ab", "c"), ("a/b", "c"), ("a", "b/c"), ("a:b", "c"), ("a", "b:c")];
            let mut all: Vec<(String, Vec<u8>)> =
                pairs.map(|(scope, key)| (scope.to_owned(), key.into())).to_vec();
            all.extend([("a\0b".into(), b"c".to_vec()), ("a".into(), b"b\0c".to_vec())]);
            all.extend([("a\u{1}".into(), b"b".to_vec()), ("a".into(), b"\x01b".to_vec())]);
            all
        },
    },
];

fn of_keys<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<(String, Vec<u8>)> {
    keys.into_iter().map(|key| ("s".to_owned(), key.as_bytes().to_vec())).collect()
}

fn of_bytes<const N: usize>(keys: [&[u8]; N]) -> Vec<(String, Vec<u8>)> {
    keys.map(|key| ("s".to_owned(), key.to_vec())).to_vec()
}

/// The same key in each scope; the scopes do not meet those of [`of_keys`].
fn of_scopes<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Vec<(String, Vec<u8>)> {
    scopes.into_iter().map(|scope| (format!("of {scope}"), b"k".to_vec())).collect()
}

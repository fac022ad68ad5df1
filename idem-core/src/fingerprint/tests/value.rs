//! JSON values of the tests' own: exact numbers, many ways to write one value, and ways to change
//! a value into another.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Random choices that a test repeats from the seed that it prints.
pub(super) struct Choices(u64);

impl Choices {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end` (SplitMix64).
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % end as u64) as usize
    }

    pub(super) fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn zeros(&mut self) -> String {
        "0".repeat(self.below(4))
    }
}

/// A number: `digits` times ten to the power of `exponent`. The digits have no zeros at either end,
/// and zero has none at all, so that equal numbers are equal values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    pub(super) digits: String,
    pub(super) exponent: i64,
}

impl Decimal {
    pub(super) fn new(negative: bool, digits: &str, exponent: i64) -> Self {
        let significant = digits.trim_end_matches('0');
        let exponent = exponent + (digits.len() - significant.len()) as i64;
        let digits = significant.trim_start_matches('0').to_owned();
        Self { negative, exponent: if digits.is_empty() { 0 } else { exponent }, digits }
    }

    pub(super) fn written(&self, choices: &mut Choices) -> String {
        let zero = self.digits.is_empty();
        let digits = format!("{}{}", self.digits, choices.zeros());
        let point = choices.below(digits.len() + 1);
        let (mut whole, mut fraction) = (digits[..point].to_owned(), digits[point..].to_owned());
        let mut exponent = self.exponent + fraction.len() as i64 - self.trailing(&digits);
        if whole.is_empty() || zero {
            whole = "0".into();
            let zeros = choices.zeros();
            exponent += zeros.len() as i64;
            fraction.insert_str(0, &zeros);
        }
        if fraction.is_empty() && choices.below(3) == 0 {
            fraction = "0".into();
        }
        let minus = if self.negative { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        let exponent = if zero { choices.below(600) as i64 - 300 } else { exponent };
        format!("{minus}{whole}{point}{fraction}{}", written_exponent(exponent, choices))
    }

    fn trailing(&self, digits: &str) -> i64 {
        (digits.len() - self.digits.len()) as i64
    }
}

fn written_exponent(exponent: i64, choices: &mut Choices) -> String {
    if exponent == 0 && choices.below(2) == 0 {
        return String::new();
    }
    let sign = if exponent < 0 { "-" } else { choices.one_of(&["", "+"]) };
    format!("{}{sign}{}{}", choices.one_of(&["e", "E"]), choices.zeros(), exponent.abs())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// Writes it in one of its many ways.
    pub(super) fn written(&self, choices: &mut Choices) -> String {
        let white = |choices: &mut Choices| choices.one_of(&["", "", " ", "\n", "\t\r "]);
        let value = match self {
            Self::Null => "null".into(),
            Self::Bool(value) => value.to_string(),
            Self::Number(number) => number.written(choices),
            Self::Text(text) => quoted(text, choices),
            Self::Array(items) if items.is_empty() => format!("[{}]", white(choices)),
            Self::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| item.written(choices)).collect();
                format!("[{}]", items.join(","))
            }
            Self::Object(members) if members.is_empty() => format!("{{{}}}", white(choices)),
            Self::Object(members) => {
                let mut written = Vec::new();
                for (name, value) in members {
                    let name =
                        format!("{}{}{}", white(choices), quoted(name, choices), white(choices));
                    let member = format!("{name}:{}", value.written(choices));
                    written.insert(choices.below(written.len() + 1), member);
                }
                format!("{{{}}}", written.join(","))
            }
        };
        format!("{}{value}{}", white(choices), white(choices))
    }

    /// Changes it into another value, somewhere.
    pub(super) fn change(&mut self, choices: &mut Choices) {
        let other = match self {
            Self::Null => Self::Text("null".into()),
            Self::Bool(value) => {
                [Self::Bool(!*value), Self::Text(value.to_string())][choices.below(2)].clone()
            }
            Self::Number(number) => changed(number, choices),
            Self::Text(text) => match choices.below(4) {
                0 => Self::Text(format!("{text}\0")),
                1 => Self::Text(format!(" {text}")),
                2 => Self::Array(vec![Self::Text(text.clone())]),
                _ => Self::Text(format!("{text}\\u0061")),
            },
            Self::Array(items) => return change_array(items, choices),
            Self::Object(members) => return change_object(members, choices),
        };
        *self = other;
    }
}

fn changed(number: &Decimal, choices: &mut Choices) -> Value {
    let Decimal { negative, digits, exponent } = number;
    Value::Number(match choices.below(5) {
        0 => Decimal { negative: !negative, ..number.clone() },
        1 => Decimal::new(*negative, &format!("{digits}1"), *exponent),
        2 => Decimal::new(*negative, &format!("1{digits}"), *exponent),
        3 if !digits.is_empty() => Decimal { exponent: exponent + 1, ..number.clone() },
        _ => return Value::Text(number.written(choices)),
    })
}

fn change_array(items: &mut Vec<Value>, choices: &mut Choices) {
    let at = choices.below(items.len() + 1);
    match choices.below(4) {
        0 if items.len() > at + 1 && items[at] != items[at + 1] => items.swap(at, at + 1),
        1 if at < items.len() => drop(items.remove(at)),
        2 | 3 if at < items.len() => items[at].change(choices),
        _ => items.insert(at, Value::Array(Vec::new())),
    }
}

fn change_object(members: &mut BTreeMap<String, Value>, choices: &mut Choices) {
    let name = members.keys().nth(choices.below(members.len() + 1)).cloned();
    match (choices.below(4), name) {
        (0, Some(name)) => drop(members.remove(&name)),
        (1, Some(name)) => {
            let value = members.remove(&name).expect("it is there");
            members.insert(format!("{name}\u{301}"), value);
        }
        (2 | 3, Some(name)) => members.get_mut(&name).expect("it is there").change(choices),
        _ => {
            let longest = members.keys().map(String::len).max().unwrap_or(0);
            members.insert("x".repeat(longest + 1), Value::Null);
        }
    }
}

/// The text between quotation marks, each character in one of the ways to write it.
fn quoted(text: &str, choices: &mut Choices) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        let short = "\"\\/\u{8}\u{c}\n\r\t".find(character).map(|at| {
            // All of these are one byte long.
            &[r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t"][at]
        });
        let plain = character >= ' ' && !matches!(character, '"' | '\\');
        match (choices.below(3), short) {
            (0, Some(short)) => out.push_str(short),
            (0 | 1, _) if plain => out.push(character),
            (upper, _) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let escape = match upper {
                        1 => format!("\\u{unit:04X}"),
                        _ => format!("\\u{unit:04x}"),
                    };
                    out.push_str(&escape);
                }
            }
        }
    }
    out.push('"');
    out
}

pub(super) fn any_decimal() -> impl Strategy<Value = Decimal> {
    let digits = prop_oneof!["[0-9]{1,3}", "[0-9]{15,22}", "[0-9]{1,400}", "0{0,3}"];
    let exponent = prop_oneof![-3..4i64, -400..400i64, -1_000_000_000_000..1_000_000_000_000i64];
    (any::<bool>(), digits, exponent)
        .prop_map(|(negative, digits, exponent)| Decimal::new(negative, &digits, exponent))
}

pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let text =
        || prop_oneof![".{0,6}", "[\\x00-\\x7f]{0,6}", "[ab\"\\\\😀\u{fb33}é\u{7f}\u{2028}]{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any_decimal().prop_map(Value::Number),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            btree_map(text(), inner, 0..6).prop_map(Value::Object),
        ]
    })
}

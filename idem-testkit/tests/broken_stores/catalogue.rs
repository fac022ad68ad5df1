//! What the catalogue as a whole has to be.

use std::collections::BTreeSet;

use idem_testkit::cases;
use libtest_mimic::{Failed, Trial};

use crate::stores;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("catalogue::has_enough_stores_of_different_names", different_names),
        Trial::test("catalogue::names_cases_for_a_rule_that_is_broken", cases_of_the_rule),
        Trial::test("catalogue::breaks_every_rule_that_a_store_can_break", every_rule),
    ]
}

fn different_names() -> Result<(), Failed> {
    let stores = stores();
    let names: BTreeSet<_> = stores.iter().map(|store| store.name()).collect();
    check(stores.len() >= 40, format!("only {} broken stores", stores.len()))?;
    check(names.len() == stores.len(), "two broken stores have one name".to_owned())
}

/// A store may be caught for another reason than its own. At least the case is about its rule.
fn cases_of_the_rule() -> Result<(), Failed> {
    let (cases, mut unrelated) = (cases::all(), Vec::new());
    for store in stores() {
        let case = cases.iter().find(|case| case.name() == store.caught_by());
        let Some(case) = case else {
            return Err(format!("{}: no case {}", store.name(), store.caught_by()).into());
        };
        let (broken, held_to) = (numbers(store.rules()), numbers(case.rules()));
        if broken.is_disjoint(&held_to) {
            let (name, case) = (store.name(), case.name());
            unrelated.push(format!("{name} breaks {broken:?}, {case} is about {held_to:?}"));
        }
    }
    check(unrelated.is_empty(), unrelated.join("\n"))
}

/// The rules on claims, leases and fences, secrets, async, and those of the execution that a store
/// has a part in. R12, R13, R16 to R18 are the engine's alone, R22 is the fingerprint's.
fn every_rule() -> Result<(), Failed> {
    let broken: BTreeSet<u8> = stores().iter().flat_map(|store| numbers(store.rules())).collect();
    let breakable = (1..=11).chain([14, 15, 19, 20, 21]).chain(23..=27);
    let whole: Vec<u8> = breakable.filter(|rule| !broken.contains(rule)).collect();
    check(whole.is_empty(), format!("no store breaks R{whole:?}"))
}

fn check(holds: bool, message: String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into()) }
}

/// The numbers in `R2, R8` or `R1-R11`.
pub(crate) fn numbers(rules: &str) -> BTreeSet<u8> {
    let number = |rule: &str| {
        let digits = rule.trim().strip_prefix('R').expect("a rule begins with R");
        digits.parse::<u8>().expect("a rule has a number")
    };
    rules
        .split(',')
        .flat_map(|part| match part.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(part)..=number(part),
        })
        .collect()
}

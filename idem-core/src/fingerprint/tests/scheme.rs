//! The one comparison, and what a claim may carry (R23).

use super::*;

fn under(scheme: u8, digest: u8) -> Fingerprint {
    Fingerprint::from_parts(Scheme::from_byte(scheme), [digest; 32])
}

#[test]
fn a_claim_compares_a_record_with_its_like() {
    use Comparison::*;
    let (v1, v2) = (under(1, 7), under(2, 9));
    let none = Fingerprint::not_compared();
    let cases = [
        (Fingerprints::new(v1), v1, Same),
        (Fingerprints::new(v1), under(1, 8), Differs),
        (Fingerprints::new(v1), v2, UnknownScheme),
        (Fingerprints::new(v1), none, NotComparable),
        (Fingerprints::new(v1).also(v2), v1, Same),
        (Fingerprints::new(v1).also(v2), v2, Same),
        (Fingerprints::new(v1).also(v2), under(2, 7), Differs),
        (Fingerprints::new(v1).also(v2), under(1, 9), Differs),
        (Fingerprints::new(v1).also(v2), under(3, 7), UnknownScheme),
        (Fingerprints::new(v2).also(v1), v1, Same),
        (Fingerprints::not_compared(), v1, NotComparable),
        (Fingerprints::not_compared(), under(255, 1), NotComparable),
        (Fingerprints::not_compared(), none, NotComparable),
    ];
    for (claim, stored, expected) in cases {
        assert_eq!(claim.compare(stored), expected, "{claim:?} with {stored:?}");
    }
}

#[test]
fn the_first_is_the_one_that_is_written() {
    let claim = Fingerprints::new(under(2, 1)).also(under(1, 2)).also(under(3, 3));
    assert_eq!(claim.primary(), under(2, 1));
    let all: Vec<_> = claim.iter().collect();
    assert_eq!(all, [under(2, 1), under(1, 2), under(3, 3)]);
    assert_eq!(Fingerprints::from(under(1, 2)), Fingerprints::new(under(1, 2)));
}

#[test]
fn one_of_a_scheme_that_is_there_takes_its_place() {
    let claim = Fingerprints::new(under(1, 1)).also(under(2, 2)).also(under(1, 9));
    let all: Vec<_> = claim.iter().collect();
    assert_eq!(all, [under(1, 9), under(2, 2)]);
}

#[test]
fn a_claim_compares_or_does_not() {
    let compares = Fingerprints::new(under(1, 1)).also(Fingerprint::not_compared());
    assert_eq!(compares, Fingerprints::new(under(1, 1)));
    let does_not = Fingerprints::not_compared().also(under(1, 1));
    assert_eq!(does_not, Fingerprints::not_compared());
}

#[test]
#[should_panic(expected = "more schemes than any release knows")]
fn a_ninth_scheme_is_refused() {
    let claim = (2..=8)
        .fold(Fingerprints::new(under(1, 1)), |claim, scheme| claim.also(under(scheme, scheme)));
    assert_eq!(claim.iter().count(), MAX_SCHEMES);
    let _ = claim.also(under(9, 9));
}

#[test]
fn a_fingerprint_that_is_not_compared_has_a_digest_of_zeros() {
    let none = under(0, 7);
    assert_eq!(none, Fingerprint::not_compared());
    assert_eq!(none.digest(), &[0; 32]);
    assert!(!none.is_compared());
    assert!(under(255, 0).is_compared());
}

#[test]
fn every_byte_is_a_scheme() {
    for byte in 0..=255 {
        assert_eq!(Scheme::from_byte(byte).as_byte(), byte);
    }
    assert_eq!(Scheme::from_byte(0), Scheme::NOT_COMPARED);
    assert_eq!(Scheme::from_byte(1), Scheme::V1);
}

#[test]
fn debug_shows_four_bytes() {
    let print = Fingerprint::from_parts(Scheme::V1, std::array::from_fn(|at| 0xf0 + at as u8 % 16));
    assert_eq!(format!("{print:?}"), "Fingerprint(1:f0f1f2f3…)");
    let claim = format!("{:?}", Fingerprints::new(print));
    assert_eq!(claim, "Fingerprints { prints: [Fingerprint(1:f0f1f2f3…)] }");
}

//! How secrets are chosen, and what is refused. The derivation itself is in `vectors`.

use super::*;

fn id(id: &str) -> SecretId {
    SecretId::new(id).unwrap()
}

fn keys() -> DownstreamKeys {
    DownstreamKeys::new(Namespace::new("n").unwrap())
}

fn key(keys: &DownstreamKeys, derivation: &Derivation) -> Result<String, DerivationError> {
    let (scope, key) = (Scope::new("s").unwrap(), Key::new("k").unwrap());
    let parts = KeyParts {
        scope: &scope,
        key: &key,
        operation: "o",
        fingerprint_scheme: 1,
        fingerprint_digest: &[0; 32],
        step: "charge",
        generation: 0,
    };
    keys.key(derivation, &parts).map(|key| key.to_string())
}

#[test]
fn a_record_keeps_its_keys_when_namespace_and_secret_change() {
    let before = keys().with_secret(id("1"), [1; 32]).unwrap();
    let stored = before.derivation();
    let first = key(&before, &stored).unwrap();

    let after = DownstreamKeys::new(Namespace::new("renamed").unwrap())
        .with_other_secret(id("1"), [1; 32])
        .and_then(|keys| keys.with_secret(id("2"), [2; 32]))
        .unwrap();
    assert_eq!(key(&after, &stored).unwrap(), first);
    assert_eq!(after.derivation().secret_id, Some(id("2")));
    assert_ne!(key(&after, &after.derivation()).unwrap(), first);
}

#[test]
fn a_record_made_without_a_secret_keeps_its_keys_when_one_is_set() {
    let stored = keys().derivation();
    assert_eq!(stored.secret_id, None);
    let first = key(&keys(), &stored).unwrap();
    let after = keys().with_secret(id("1"), [1; 32]).unwrap();
    assert_eq!(key(&after, &stored).unwrap(), first);
}

#[test]
fn the_latest_secret_is_current_and_the_one_before_stays() {
    let one = keys().with_secret(id("1"), [1; 32]).unwrap();
    let stored = one.derivation();
    let two = one.clone().with_secret(id("2"), [2; 32]).unwrap();
    let next = two.clone().with_other_secret(id("3"), [3; 32]).unwrap();
    assert_eq!(next.derivation().secret_id, Some(id("2")));
    assert_eq!(key(&next, &stored), key(&one, &stored));
}

#[test]
fn an_unknown_secret_or_version_gives_no_key() {
    let stored = keys().with_secret(id("1"), [1; 32]).unwrap().derivation();
    let error = key(&keys(), &stored).unwrap_err();
    assert_eq!(error, DerivationError::UnknownSecret { id: id("1") });

    for version in (0..=u8::MAX).filter(|version| *version != DERIVATION_VERSION) {
        let newer = Derivation { version, ..keys().derivation() };
        let error = key(&keys(), &newer).unwrap_err();
        assert_eq!(error, DerivationError::UnknownVersion { version });
    }
}

#[test]
fn a_short_secret_and_a_repeated_id_are_refused() {
    let error = keys().with_secret(id("1"), [1; 31]).unwrap_err();
    assert_eq!(error, SecretError::TooShort { bytes: 31, least: 32 });
    let one = keys().with_secret(id("1"), [1; 32]).unwrap();
    for again in
        [one.clone().with_secret(id("1"), [2; 32]), one.with_other_secret(id("1"), [1; 32])]
    {
        assert_eq!(again.unwrap_err(), SecretError::RepeatedId { id: id("1") });
    }
}

#[test]
fn a_namespace_is_never_empty() {
    assert!(Namespace::new("").is_err());
    assert!(Namespace::new("n".repeat(256)).is_err());
    assert!(Namespace::new("n".repeat(255)).is_ok());
}

#[test]
fn debug_hides_secrets() {
    let keys = keys().with_secret(id("1"), b"hunter2-hunter2-hunter2-hunter2-").unwrap();
    let derivation = keys.derivation();
    let shown = format!("{keys:?} {derivation:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
}

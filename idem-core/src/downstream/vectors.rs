//! The frozen vectors of derivation version 1, worked out apart from this code. A line here never
//! changes; docs/downstream-keys.md shows the same ones.

use super::*;

const COUNTING: [u8; 65] = {
    let mut bytes = [0; 65];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};
const SECRET: &[u8] = &[7; 32];

#[derive(Clone)]
struct Case {
    secret: Option<&'static [u8]>,
    namespace: String,
    scope: String,
    key: Vec<u8>,
    operation: String,
    scheme: u8,
    digest: [u8; 32],
    step: String,
    generation: u32,
}

impl Case {
    fn plain() -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(&COUNTING[..32]);
        Self {
            secret: None,
            namespace: "payments/production".into(),
            scope: "acct_1".into(),
            key: b"order-7".to_vec(),
            operation: "charges.create".into(),
            scheme: 1,
            digest,
            step: "charge".into(),
            generation: 0,
        }
    }

    fn secret() -> Self {
        Self { secret: Some(SECRET), ..Self::plain() }
    }

    fn derived(&self) -> String {
        let mut keys = DownstreamKeys::new(Namespace::new(&self.namespace).unwrap());
        if let Some(secret) = self.secret {
            keys = keys.with_secret(SecretId::new("any").unwrap(), secret).unwrap();
        }
        let (scope, key) = (Scope::new(&self.scope).unwrap(), Key::opaque(&self.key).unwrap());
        let parts = KeyParts {
            scope: &scope,
            key: &key,
            operation: &self.operation,
            fingerprint_scheme: self.scheme,
            fingerprint_digest: &self.digest,
            step: &self.step,
            generation: self.generation,
        };
        keys.key(&keys.derivation(), &parts).unwrap().to_string()
    }
}

fn vectors() -> Vec<(&'static str, Case)> {
    let (plain, secret) = (Case::plain, Case::secret);
    vec![
        ("bcea94c2-2379-8490-a831-761b64328dc3", plain()),
        ("a104d265-a18c-8f2a-bbec-f572bb128166", secret()),
        ("cd13cf79-cd6c-8086-b38e-40cbda6f2330", Case { generation: 1, ..plain() }),
        ("3f7596fd-ac8d-89bc-a781-d0734ce5165c", Case { generation: 1, ..secret() }),
        ("518d1b22-1880-8897-8264-a0994dc5f6eb", Case { generation: u32::MAX, ..plain() }),
        ("f7b25760-56a1-8afb-8a2c-4f5c53fec428", Case { step: "".into(), ..plain() }),
        ("c339ecef-6131-802e-8aa2-912488abfc41", Case { step: "refund".into(), ..secret() }),
        ("4d8a3562-5cfa-8f1b-9790-d02f22d73e27", Case { scheme: 2, ..plain() }),
        ("5c92aab2-ad26-8fe0-88ac-a6cb75179a30", Case { digest: [0xff; 32], ..plain() }),
        (
            "03953879-6d5d-8fee-95e9-dc18418c1bc9",
            Case { scope: "a".into(), key: b"bc".to_vec(), ..plain() },
        ),
        (
            "84751985-acbb-8a8a-9926-055b5ff01622",
            Case { scope: "ab".into(), key: b"c".to_vec(), ..plain() },
        ),
        (
            "aee13922-6588-83ce-a6eb-3a4560dde1ee",
            Case { namespace: "p".into(), scope: "qr".into(), ..secret() },
        ),
        (
            "ad67fbaf-9288-85f9-880a-20d736b812ac",
            Case { namespace: "pq".into(), scope: "r".into(), ..secret() },
        ),
        (
            "7cf190e6-2dc7-8207-8056-4a7c7816c435",
            Case { key: b"x".to_vec(), operation: "yz".into(), ..plain() },
        ),
        (
            "f722819a-43c6-8d39-8d93-c2119a07644a",
            Case { key: b"xy".to_vec(), operation: "z".into(), ..plain() },
        ),
        (
            "bee816e5-d680-8bbf-99a8-009117114a6e",
            Case { key: vec![0, 0xff, 0x80, 0x0a], ..secret() },
        ),
        (
            "e319d4f7-6f5c-8b69-8583-257397dc0bcf",
            Case { namespace: "支払い".into(), scope: "café ☃".into(), ..plain() },
        ),
        ("3dfce2db-dc79-8fca-93ab-f0bf513b6f1f", Case { secret: Some(&COUNTING[..64]), ..plain() }),
        ("35a05337-d08d-82f4-beb8-6b0f09ac1bde", Case { secret: Some(&COUNTING), ..plain() }),
        (
            "42f0144c-b611-84bb-80e4-9ae6795c6b78",
            Case {
                namespace: "n".repeat(255),
                scope: "s".repeat(255),
                key: vec![b'k'; 255],
                operation: "o".repeat(255),
                step: "t".repeat(255),
                ..secret()
            },
        ),
        ("c7ee586a-14f4-8e15-b9c2-ffc7d23584b5", Case { scheme: 0, digest: [0; 32], ..plain() }),
        (
            "5f198099-dc61-8e06-a23a-c5a30df5c432",
            Case {
                scope: "Acct_1 ".into(),
                key: b" Order-7 ".to_vec(),
                operation: " Charges.create ".into(),
                step: " Charge ".into(),
                ..plain()
            },
        ),
    ]
}

#[test]
fn version_1_is_frozen() {
    for (at, (expected, case)) in vectors().into_iter().enumerate() {
        assert_eq!(case.derived(), expected, "vector {at}");
    }
}

#[test]
fn the_page_shows_the_same_vectors() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/downstream-keys.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (expected, _) in vectors() {
        assert_eq!(page.matches(expected).count(), 1, "{expected}");
    }
}

#[test]
fn every_key_is_a_uuid_of_version_8() {
    for generation in 0..500 {
        let text = Case { generation, ..Case::secret() }.derived();
        assert_eq!(text.len(), 36);
        for (at, byte) in text.bytes().enumerate() {
            let fits = match at {
                8 | 13 | 18 | 23 => byte == b'-',
                14 => byte == b'8',
                19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
                _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            };
            assert!(fits, "character {at} of {text}");
        }
    }
}

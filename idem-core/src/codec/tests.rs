//! What the tests of the codec share: a value of every kind, and a sealer that needs no feature.

use std::sync::Arc;

use bytes::Bytes;
use hmac::{Hmac, Mac};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sha2::Sha256;

use super::*;
use crate::downstream::{Derivation, Namespace};
use crate::input::Input;
use crate::reply::{Fields, Reply, Tombstone};
use crate::seal::{SealError, SealedBox, SecretId};

mod damage;
mod round_trip;
mod sealing;
mod vectors;

/// Any of the three values that a codec frames.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Reply(StoredReply),
    Input(StoredInput),
    Progress(Progress),
}

impl Value {
    fn encode(&self, codec: &Codec, scope: &Scope, key: &Key) -> Result<Sealed, CodecError> {
        match self {
            Self::Reply(reply) => codec.encode_reply(reply, scope, key),
            Self::Input(input) => codec.encode_input(input, scope, key),
            Self::Progress(progress) => codec.encode_progress(progress, scope, key),
        }
    }

    fn kind(&self) -> FrameKind {
        match self {
            Self::Reply(_) => FrameKind::Reply,
            Self::Input(_) => FrameKind::Input,
            Self::Progress(_) => FrameKind::Progress,
        }
    }

    fn decode(
        kind: FrameKind,
        codec: &Codec,
        stored: &Sealed,
        scope: &Scope,
        key: &Key,
    ) -> Result<Self, CodecError> {
        match kind {
            FrameKind::Reply => codec.decode_reply(stored, scope, key).map(Self::Reply),
            FrameKind::Input => codec.decode_input(stored, scope, key).map(Self::Input),
            FrameKind::Progress => codec.decode_progress(stored, scope, key).map(Self::Progress),
        }
    }
}

const KINDS: [FrameKind; 3] = [FrameKind::Reply, FrameKind::Input, FrameKind::Progress];

fn scope() -> Scope {
    Scope::new("acct_1").unwrap()
}

fn key() -> Key {
    Key::new("order-7").unwrap()
}

/// Authenticates and does not hide: enough to see that what is bound is bound.
struct MacSealer {
    id: SecretId,
    secret: [u8; 32],
}

impl MacSealer {
    fn codec(id: &str, secret: [u8; 32]) -> Codec {
        Codec::sealed_by(Arc::new(Self { id: SecretId::new(id).unwrap(), secret }))
    }

    fn tag(&self, associated: &[u8], plain: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).unwrap();
        mac.update(&(associated.len() as u64).to_be_bytes());
        mac.update(associated);
        mac.update(plain);
        mac.finalize().into_bytes().into()
    }
}

impl Sealer for MacSealer {
    fn seal(&self, associated: &[u8], plain: &[u8]) -> Result<SealedBox, SealError> {
        let mut bytes = plain.to_vec();
        bytes.extend_from_slice(&self.tag(associated, plain));
        Ok(SealedBox { key_id: self.id.clone(), bytes })
    }

    fn open(
        &self,
        key_id: &SecretId,
        associated: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        if *key_id != self.id {
            return Err(SealError::UnknownKeyId { key_id: key_id.clone() });
        }
        let at = sealed.len().checked_sub(32).ok_or(SealError::Authentication)?;
        let (plain, tag) = sealed.split_at(at);
        match self.tag(associated, plain) == tag {
            true => Ok(plain.to_vec()),
            false => Err(SealError::Authentication),
        }
    }
}

/// Every codec that this build has, by name.
fn codecs() -> Vec<(&'static str, Codec)> {
    let mut codecs = vec![("plain", Codec::new())];
    codecs.extend(sealing_codecs());
    codecs
}

fn sealing_codecs() -> Vec<(&'static str, Codec)> {
    vec![
        ("mac", MacSealer::codec("k1", [3; 32])),
        #[cfg(feature = "aes-gcm")]
        ("aes-gcm", {
            let id = SecretId::new("k1").unwrap();
            Codec::sealed_by(Arc::new(crate::seal::AesGcmSealer::new(id, &[42; 32])))
        }),
    ]
}

/// One value of each shape, small enough to be damaged at every byte.
fn samples() -> Vec<Value> {
    let reply = Reply::new(201)
        .unwrap()
        .with_header("Set-Cookie", "a=1")
        .with_header("ETag", &b"\"\xe9\""[..])
        .with_header("set-cookie", "b=2")
        .with_body("{}")
        .with_trailer("grpc-status", "0");
    let csv = Tombstone::new(200).unwrap().with_header("content-type", "text/csv");
    let input = Input::new(r#"{"amount":5}"#)
        .with_method("POST")
        .with_target("/v1/charges?a=1")
        .with_header("content-type", "application/json");
    let progress = Progress::begun()
        .with_result("reserve", 0, "ok")
        .and_then(|progress| progress.with_generation("charge", 2))
        .unwrap();
    let payments = derivation("payments/production", Some("2026-11"));
    vec![
        Value::Reply(Reply::empty().into()),
        Value::Reply(Reply::from("").into()),
        Value::Reply(reply.into()),
        Value::Reply(csv.with_body_bytes_seen(1 << 33).into()),
        Value::Reply(Tombstone::new(500).unwrap().into()),
        Value::Input(StoredInput { derivation: derivation("n", None), input: None }),
        Value::Input(StoredInput { derivation: payments, input: Some(input) }),
        Value::Progress(Progress::begun()),
        Value::Progress(progress),
    ]
}

fn derivation(namespace: &str, secret_id: Option<&str>) -> Derivation {
    Derivation {
        version: 1,
        namespace: Namespace::new(namespace).unwrap(),
        secret_id: secret_id.map(|id| SecretId::new(id).unwrap()),
    }
}

fn any_bytes(most: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=most).prop_map(Bytes::from)
}

fn any_fields() -> impl Strategy<Value = Fields> {
    vec((any_bytes(20), any_bytes(40)), 0..8)
}

fn any_reply() -> impl Strategy<Value = StoredReply> {
    let parts = (100..=599_u16, any_fields(), option::of(any_bytes(300)), any_fields());
    let full = parts.prop_map(|(status, headers, body, trailers)| {
        let reply = Reply::new(status).unwrap().with_headers(headers).with_trailers(trailers);
        StoredReply::Full(match body {
            Some(body) => reply.with_body(body),
            None => reply,
        })
    });
    let tombstone = (100..=599_u16, any_fields(), option::of(any::<u64>())).prop_map(
        |(status, headers, seen)| {
            let mut tombstone = Tombstone::new(status).unwrap();
            for (name, value) in headers {
                tombstone = tombstone.with_header(name, value);
            }
            StoredReply::Tombstone(match seen {
                Some(bytes) => tombstone.with_body_bytes_seen(bytes),
                None => tombstone,
            })
        },
    );
    prop_oneof![full, tombstone]
}

fn any_input() -> impl Strategy<Value = StoredInput> {
    let parts = (option::of(any_bytes(8)), option::of(any_bytes(40)), any_fields(), any_bytes(300));
    let input = parts.prop_map(|(method, target, headers, body)| {
        Input::from_parts(method, target, headers, body)
    });
    let id = option::of(vec(0x21..=0x7e_u8, 1..=20));
    (any::<u8>(), any_name(), id, option::of(input)).prop_map(|(version, name, id, input)| {
        let namespace = Namespace::new(name).unwrap();
        let secret_id = id.map(|id| SecretId::new(String::from_utf8(id).unwrap()).unwrap());
        StoredInput { derivation: Derivation { version, namespace, secret_id }, input }
    })
}

fn any_progress() -> impl Strategy<Value = Progress> {
    let step = (any::<u32>(), option::of(any_bytes(100)));
    proptest::collection::btree_map(any_name(), step, 0..8).prop_map(|steps| {
        steps.into_iter().rev().fold(Progress::begun(), |progress, (name, (generation, result))| {
            let progress = progress.with_generation(&name, generation).unwrap();
            match result {
                Some(result) => progress.with_result(&name, generation, result).unwrap(),
                None => progress,
            }
        })
    })
}

/// Text of 1 to 255 bytes.
fn any_name() -> impl Strategy<Value = String> {
    vec(any::<char>(), 1..=63).prop_map(String::from_iter)
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_reply().prop_map(Value::Reply),
        any_input().prop_map(Value::Input),
        any_progress().prop_map(Value::Progress),
    ]
}

fn any_identity() -> impl Strategy<Value = (Scope, Key)> {
    (any_name(), vec(any::<u8>(), 1..=255))
        .prop_map(|(scope, key)| (Scope::new(scope).unwrap(), Key::opaque(key).unwrap()))
}

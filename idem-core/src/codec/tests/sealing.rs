//! What a seal is bound to, and what a codec refuses to read.

use super::*;

fn refused_as_not_ours(error: CodecError) -> bool {
    matches!(error, CodecError::Seal(SealError::Authentication))
        && error.kind() == CodecErrorKind::Corrupt
}

#[test]
fn a_sealed_value_cannot_be_moved_to_another_scope_or_key() {
    for (name, codec) in sealing_codecs() {
        for value in samples() {
            let (scope, key) = (Scope::new("ab").unwrap(), Key::new("c").unwrap());
            let frame = value.encode(&codec, &scope, &key).unwrap();
            for (scope, key) in [("ab", "d"), ("aB", "c"), ("a", "bc"), ("abc", "c")] {
                let (scope, key) = (Scope::new(scope).unwrap(), Key::new(key).unwrap());
                let error = Value::decode(value.kind(), &codec, &frame, &scope, &key).unwrap_err();
                assert!(refused_as_not_ours(error), "{name} {value:?}");
            }
        }
    }
}

#[test]
fn a_sealed_value_cannot_be_relabelled() {
    for (name, codec) in sealing_codecs() {
        for value in samples() {
            let frame = value.encode(&codec, &scope(), &key()).unwrap();
            for (kind, byte) in KINDS.into_iter().zip(1..) {
                let mut bytes = frame.as_bytes().to_vec();
                bytes[1] = byte;
                // A reply, or its tombstone; what has the flag of one must be a reply.
                for flags in [1, 3] {
                    bytes[2] = flags;
                    if bytes == frame.as_bytes() {
                        continue;
                    }
                    let moved = Sealed::from_bytes(bytes.clone());
                    let error = Value::decode(kind, &codec, &moved, &scope(), &key()).unwrap_err();
                    let flagged = matches!(error, CodecError::UnknownFlags { .. });
                    assert!(flagged || refused_as_not_ours(error), "{name} {value:?} {kind}");
                }
            }
        }
    }
}

#[test]
fn a_sealing_codec_reads_an_unsealed_frame_only_when_told_to() {
    for (name, codec) in sealing_codecs() {
        for value in samples() {
            let (scope, key, kind) = (scope(), key(), value.kind());
            let frame = value.encode(&Codec::new(), &scope, &key).unwrap();
            let error = Value::decode(kind, &codec, &frame, &scope, &key).unwrap_err();
            assert!(matches!(error, CodecError::NotSealed), "{name}: {error}");
            assert_eq!(error.kind(), CodecErrorKind::WrongSetting);

            let turning = codec.clone().reading_unsealed();
            let read = Value::decode(kind, &turning, &frame, &scope, &key).unwrap();
            assert_eq!(read, value);
            let sealed = value.encode(&turning, &scope, &key).unwrap();
            assert_eq!(Value::decode(kind, &codec, &sealed, &scope, &key).unwrap(), value);
        }
    }
}

#[test]
fn a_codec_without_a_sealer_says_which_key_it_lacks() {
    for (name, codec) in sealing_codecs() {
        for value in samples() {
            let frame = value.encode(&codec, &scope(), &key()).unwrap();
            let error =
                Value::decode(value.kind(), &Codec::new(), &frame, &scope(), &key()).unwrap_err();
            let named =
                matches!(&error, CodecError::NoSealer { key_id } if key_id.as_str() == "k1");
            assert!(named, "{name}: {error}");
            assert_eq!(error.kind(), CodecErrorKind::WrongSetting);
        }
    }
}

#[test]
fn an_unknown_key_is_a_matter_of_settings_and_a_wrong_one_is_not() {
    let writer = MacSealer::codec("k1", [3; 32]);
    let frame = writer.encode_progress(&Progress::begun(), &scope(), &key()).unwrap();
    let decode = |codec: Codec| codec.decode_progress(&frame, &scope(), &key()).unwrap_err();
    let error = decode(MacSealer::codec("k2", [3; 32]));
    assert!(matches!(error, CodecError::Seal(SealError::UnknownKeyId { .. })), "{error}");
    assert_eq!(error.kind(), CodecErrorKind::WrongSetting);
    assert!(refused_as_not_ours(decode(MacSealer::codec("k1", [4; 32]))));
}

#[test]
fn a_sealed_frame_over_the_limit_is_not_written() {
    let codec = MacSealer::codec("k1", [3; 32]);
    // The payload alone would fit; the seal around it does not.
    let body = vec![0; MAX_FRAME_BYTES - 20];
    let error = codec.encode_reply(&Reply::from(body).into(), &scope(), &key()).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::TooLarge, "{error}");
}

/// A key service that is away, and one that gives back what nobody sealed.
struct Faulty;

impl Sealer for Faulty {
    fn seal(&self, _: &[u8], _: &[u8]) -> Result<SealedBox, SealError> {
        Err(SealError::other("away"))
    }

    fn open(&self, _: &SecretId, _: &[u8], _: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(vec![0xff; 100])
    }
}

#[test]
fn a_sealer_that_fails_is_an_error_and_what_it_opens_is_not_trusted() {
    let codec = Codec::sealed_by(Arc::new(Faulty));
    let sealed = MacSealer::codec("k1", [3; 32]);
    for value in samples() {
        let error = value.encode(&codec, &scope(), &key()).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::SealerFailed);
        let frame = value.encode(&sealed, &scope(), &key()).unwrap();
        assert!(Value::decode(value.kind(), &codec, &frame, &scope(), &key()).is_err());
    }
}

//! Damaged, cut and made-up bytes: a typed error, never a panic, and never a value that no writer
//! wrote.

use super::*;

fn decode(kind: FrameKind, codec: &Codec, bytes: &[u8]) -> Result<Value, CodecError> {
    let stored = Sealed::from_bytes(bytes.to_vec());
    Value::decode(kind, codec, &stored, &scope(), &key())
}

/// Reads the bytes as each kind. What reads must write back to the very same bytes: there is one
/// encoding of each value, and nothing in a frame goes unread.
fn check_total(bytes: &[u8]) {
    let codec = Codec::new();
    for kind in KINDS {
        if let Ok(value) = decode(kind, &codec, bytes) {
            let again = value.encode(&codec, &scope(), &key()).unwrap();
            assert_eq!(again.as_bytes(), bytes, "{value:?}");
        }
    }
    for (_, codec) in sealing_codecs() {
        for kind in KINDS {
            assert!(decode(kind, &codec, bytes).is_err());
        }
    }
}

#[test]
fn a_frame_cut_at_any_byte_is_an_error() {
    for (name, codec) in codecs() {
        for value in samples() {
            let whole = value.encode(&codec, &scope(), &key()).unwrap();
            for end in 0..whole.len() {
                let error = decode(value.kind(), &codec, &whole.as_bytes()[..end]).unwrap_err();
                assert_eq!(error.kind(), CodecErrorKind::Corrupt, "{name} {value:?} at {end}");
            }
        }
    }
}

#[test]
fn a_frame_with_bytes_after_it_is_an_error() {
    for (name, codec) in codecs() {
        for value in samples() {
            let mut longer = value.encode(&codec, &scope(), &key()).unwrap().as_bytes().to_vec();
            longer.push(0);
            let error = decode(value.kind(), &codec, &longer).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::Corrupt, "{name} {value:?}");
        }
    }
    let mut longer = vec![1, 3, 0, 0, 0, 0, 0];
    longer.extend_from_slice(b"xyz");
    let error = decode(FrameKind::Progress, &Codec::new(), &longer).unwrap_err();
    assert!(matches!(error, CodecError::TrailingBytes { bytes: 3 }), "{error}");
}

#[test]
fn a_sealed_frame_with_any_bit_of_any_byte_flipped_is_an_error() {
    for (name, codec) in sealing_codecs() {
        for value in samples() {
            let whole = value.encode(&codec, &scope(), &key()).unwrap();
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut flipped = whole.as_bytes().to_vec();
                    flipped[at] ^= 1 << bit;
                    let read = decode(value.kind(), &codec, &flipped);
                    assert!(read.is_err(), "{name} {value:?}: byte {at}, bit {bit}");
                }
            }
        }
    }
}

#[test]
fn an_unknown_version_is_told_apart_from_damage() {
    for (_, codec) in codecs() {
        for value in samples() {
            let frame = value.encode(&codec, &scope(), &key()).unwrap();
            for other in (0..=u8::MAX).filter(|version| *version != FORMAT_VERSION) {
                let mut bytes = frame.as_bytes().to_vec();
                bytes[0] = other;
                let error = decode(value.kind(), &codec, &bytes).unwrap_err();
                assert!(
                    matches!(error, CodecError::UnknownVersion { version } if version == other)
                );
                assert_eq!(error.kind(), CodecErrorKind::WrongSetting);
            }
        }
    }
}

#[test]
fn one_kind_is_never_read_as_another() {
    for (name, codec) in codecs() {
        for value in samples() {
            let frame = value.encode(&codec, &scope(), &key()).unwrap();
            for kind in KINDS.into_iter().filter(|kind| *kind != value.kind()) {
                let error = decode(kind, &codec, frame.as_bytes()).unwrap_err();
                let expected = |error: &CodecError| {
                    matches!(error, CodecError::WrongKind { expected, found }
                        if *expected == kind && *found == value.kind())
                };
                assert!(expected(&error), "{name} {value:?}: {error}");
            }
        }
    }
}

#[test]
fn kinds_and_flags_that_nobody_writes_are_refused() {
    let codec = Codec::new();
    for kind in [0, 4, 255] {
        let error = decode(FrameKind::Reply, &codec, &[1, kind, 0]).unwrap_err();
        assert!(matches!(error, CodecError::UnknownKind { kind: found } if found == kind));
    }
    for (kind, byte, allowed) in
        [(FrameKind::Reply, 1, 3), (FrameKind::Input, 2, 1), (FrameKind::Progress, 3, 1)]
    {
        for flags in 0..=u8::MAX {
            let error = decode(kind, &codec, &[1, byte, flags]).unwrap_err();
            let refused = matches!(error, CodecError::UnknownFlags { .. });
            assert_eq!(refused, flags & !allowed != 0, "{kind} {flags:#010b}: {error}");
        }
    }
}

#[test]
fn a_length_or_a_count_that_a_frame_only_claims_is_an_error() {
    let codec = Codec::new();
    let most = [0xff; 4];
    let cases: [(FrameKind, &[&[u8]]); 6] = [
        (FrameKind::Reply, &[&[1, 1, 0, 0, 200], &most]),
        (FrameKind::Reply, &[&[1, 1, 0, 0, 200], &[0, 0, 4, 0]]),
        (FrameKind::Reply, &[&[1, 1, 0, 0, 200, 0, 0, 0, 0, 1], &most, b"x"]),
        (FrameKind::Input, &[&[1, 2, 0, 1], &most]),
        (FrameKind::Progress, &[&[1, 3, 0], &most]),
        (FrameKind::Progress, &[&[1, 3, 0, 0, 0, 3, 232]]),
    ];
    for (kind, parts) in cases {
        let bytes = parts.concat();
        let error = decode(kind, &codec, &bytes).unwrap_err();
        let fits = matches!(error, CodecError::Truncated { .. } | CodecError::Malformed { .. });
        assert!(fits && error.kind() == CodecErrorKind::Corrupt, "{bytes:?}: {error}");
    }
}

#[test]
fn values_that_no_writer_makes_are_refused() {
    let codec = Codec::new();
    let reply = |status: u16, rest: &[u8]| [&[1, 1, 0], &status.to_be_bytes()[..], rest].concat();
    let nothing = [0; 9];
    assert!(decode(FrameKind::Reply, &codec, &reply(204, &nothing)).is_ok());
    let no_step = [0, 0, 0, 0, 0, 0, 0, 0, 0];
    let step_a = [0, 0, 0, 1, b'a', 0, 0, 0, 0, 0];
    let cases = [
        (FrameKind::Reply, reply(99, &nothing)),
        (FrameKind::Reply, reply(600, &nothing)),
        (FrameKind::Reply, reply(204, &[0, 0, 0, 0, 2, 0, 0, 0, 0])),
        // A namespace that is empty, and one that is not UTF-8; an id with a space.
        (FrameKind::Input, vec![1, 2, 0, 1, 0, 0, 0, 0, 0, 0]),
        (FrameKind::Input, vec![1, 2, 0, 1, 0, 0, 0, 1, 0xff, 0, 0]),
        (FrameKind::Input, vec![1, 2, 0, 1, 0, 0, 0, 1, b'n', 1, 0, 0, 0, 1, b' ', 0]),
        // A step without a name, and one that stands there twice.
        (FrameKind::Progress, [&[1, 3, 0, 0, 0, 0, 1][..], &no_step].concat()),
        (FrameKind::Progress, [&[1, 3, 0, 0, 0, 0, 2][..], &step_a, &step_a].concat()),
    ];
    for (kind, bytes) in cases {
        let error = decode(kind, &codec, &bytes).unwrap_err();
        let fits = matches!(error, CodecError::Malformed { .. } | CodecError::Label(_));
        assert!(fits && error.kind() == CodecErrorKind::Corrupt, "{bytes:?}: {error}");
    }
}

#[test]
fn more_fields_or_steps_than_a_writer_may_write_are_refused() {
    let codec = Codec::new();
    let count = |count: usize| (count as u32).to_be_bytes();
    let reply = |fields: usize| {
        let around = [&[1, 1, 0, 0, 204][..], &count(fields)].concat();
        [around, vec![0; 8 * fields], vec![0; 5]].concat()
    };
    assert!(decode(FrameKind::Reply, &codec, &reply(MAX_FIELDS)).is_ok());
    let progress = |steps: usize| {
        let step = |at: usize| [&[0, 0, 0, 4][..], format!("{at:04}").as_bytes(), &[0; 5]].concat();
        [&[1, 3, 0][..], &count(steps), &(0..steps).flat_map(step).collect::<Vec<_>>()].concat()
    };
    let most = crate::progress::MAX_STEPS;
    assert!(decode(FrameKind::Progress, &codec, &progress(most)).is_ok());
    for (kind, bytes) in
        [(FrameKind::Reply, reply(MAX_FIELDS + 1)), (FrameKind::Progress, progress(most + 1))]
    {
        let error = decode(kind, &codec, &bytes).unwrap_err();
        assert!(matches!(error, CodecError::Malformed { .. }), "{kind}: {error}");
    }
}

#[test]
fn a_frame_over_the_limit_is_refused_unread() {
    let stored = Sealed::from_bytes(vec![1; MAX_FRAME_BYTES + 1]);
    let error = Codec::new().decode_reply(&stored, &scope(), &key()).unwrap_err();
    assert!(matches!(error, CodecError::Malformed { part: "length" }), "{error}");
}

#[test]
fn errors_show_nothing_of_the_content() {
    let frame = Sealed::from_bytes(b"\x01\x01\x00\x00\xc8hunter2 and more".to_vec());
    let error = Codec::new().decode_reply(&frame, &scope(), &key()).unwrap_err();
    let shown = format!("{error} {error:?} {frame:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("order-7"), "{shown}");
    assert!(shown.contains("Sealed(21 bytes)"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn made_up_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        check_total(&bytes);
    }

    #[test]
    fn made_up_bytes_behind_a_good_head_never_panic(
        kind in 1..=3_u8,
        flags in 0..=3_u8,
        // Small numbers, so that lengths and counts often fit.
        bytes in vec(prop_oneof![4 => 0..4_u8, 1 => any::<u8>()], 0..120),
    ) {
        check_total(&[&[1, kind, flags], &bytes[..]].concat());
    }

    #[test]
    fn a_changed_frame_never_panics(
        value in any_value(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let frame = value.encode(&Codec::new(), &scope(), &key()).unwrap();
        let mut bytes = frame.as_bytes().to_vec();
        for (at, byte, change) in changes {
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        check_total(&bytes);
    }
}

//! What goes in comes out, byte for byte.

use super::*;

proptest! {
    #[test]
    fn every_value_comes_back_under_every_codec(
        value in any_value(),
        (scope, key) in any_identity(),
    ) {
        for (name, codec) in codecs() {
            let stored = value.encode(&codec, &scope, &key).unwrap();
            let read = Value::decode(value.kind(), &codec, &stored, &scope, &key).unwrap();
            prop_assert_eq!(&read, &value, "{}", name);
        }
    }

    #[test]
    fn the_same_value_gives_the_same_bytes_when_it_is_not_sealed(value in any_value()) {
        let codec = Codec::new();
        let first = value.encode(&codec, &scope(), &key()).unwrap();
        let again = value.clone().encode(&codec, &scope(), &key()).unwrap();
        prop_assert_eq!(first, again);
    }
}

#[test]
fn every_status_comes_back() {
    let codec = Codec::new();
    for status in 100..=599 {
        let stored = [
            StoredReply::Full(Reply::new(status).unwrap()),
            StoredReply::Tombstone(Tombstone::new(status).unwrap()),
        ];
        for stored in stored {
            let frame = codec.encode_reply(&stored, &scope(), &key()).unwrap();
            let read = codec.decode_reply(&frame, &scope(), &key()).unwrap();
            assert_eq!((read.status(), &read), (status, &stored));
        }
    }
}

#[test]
fn every_byte_value_comes_back_in_names_values_bodies_and_trailers() {
    let all: Bytes = (0..=255_u8).collect::<Vec<_>>().into();
    let reply = Reply::from_bytes(all.clone())
        .with_header(all.clone(), all.clone())
        .with_trailer(all.clone(), all);
    for (name, codec) in codecs() {
        let frame = codec.encode_reply(&reply.clone().into(), &scope(), &key()).unwrap();
        let read = codec.decode_reply(&frame, &scope(), &key()).unwrap();
        assert_eq!(read, StoredReply::Full(reply.clone()), "{name}");
    }
}

#[test]
fn repeated_fields_keep_their_order_their_case_and_their_commas() {
    let fields = [
        ("Set-Cookie", "a=1; Expires=Thu, 01 Jan 2026 00:00:00 GMT"),
        ("content-disposition", "attachment; filename=\"a, b.csv\""),
        ("set-cookie", "b=2"),
        ("Set-Cookie", ""),
        ("SET-COOKIE", "a=1"),
    ];
    let fields = fields.map(|(name, value)| (Bytes::from(name), Bytes::from(value)));
    let reply = Reply::empty().with_headers(fields.clone());
    let codec = Codec::new();
    let frame = codec.encode_reply(&reply.into(), &scope(), &key()).unwrap();
    let read = codec.decode_reply(&frame, &scope(), &key()).unwrap();
    assert_eq!(read.full().unwrap().headers(), fields);
}

#[test]
fn an_absent_body_an_empty_one_and_a_tombstone_differ() {
    let codec = Codec::new();
    let three = [
        StoredReply::Full(Reply::new(200).unwrap()),
        StoredReply::Full(Reply::new(200).unwrap().with_body("")),
        StoredReply::Tombstone(Tombstone::new(200).unwrap()),
    ];
    let frames = three.clone().map(|reply| codec.encode_reply(&reply, &scope(), &key()).unwrap());
    assert!(frames[0] != frames[1] && frames[1] != frames[2] && frames[0] != frames[2]);
    for (reply, frame) in three.iter().zip(&frames) {
        assert_eq!(codec.decode_reply(frame, &scope(), &key()).unwrap(), *reply);
    }
}

#[test]
fn a_body_of_one_mebibyte_comes_back() {
    let body: Bytes = (0..1_u32 << 20).map(|at| (at ^ (at >> 8)) as u8).collect::<Vec<_>>().into();
    let reply = StoredReply::Full(Reply::from_bytes(body.clone()));
    let input = StoredInput { derivation: derivation("n", None), input: Some(Input::new(body)) };
    for (name, codec) in codecs() {
        let frame = codec.encode_reply(&reply, &scope(), &key()).unwrap();
        assert_eq!(codec.decode_reply(&frame, &scope(), &key()).unwrap(), reply, "{name}");
        let frame = codec.encode_input(&input, &scope(), &key()).unwrap();
        assert_eq!(codec.decode_input(&frame, &scope(), &key()).unwrap(), input, "{name}");
    }
}

#[test]
fn the_limits_hold_on_the_way_in() {
    let codec = Codec::new();
    let encode = |reply: Reply| codec.encode_reply(&reply.into(), &scope(), &key());
    let fields = |count| vec![(Bytes::from("a"), Bytes::new()); count];
    assert!(encode(Reply::empty().with_headers(fields(MAX_FIELDS))).is_ok());
    for reply in [
        Reply::empty().with_headers(fields(MAX_FIELDS + 1)),
        Reply::empty().with_trailers(fields(MAX_FIELDS + 1)),
    ] {
        let error = encode(reply).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::TooLarge, "{error}");
    }

    // Version, kind, flags, status, no headers, presence and length of the body, no trailers.
    let around = 3 + 2 + 4 + 5 + 4;
    let fits = Reply::from_bytes(vec![0; MAX_FRAME_BYTES - around]);
    let frame = encode(fits).unwrap();
    assert_eq!(frame.len(), MAX_FRAME_BYTES);
    assert!(codec.decode_reply(&frame, &scope(), &key()).is_ok());
    let error = encode(Reply::from_bytes(vec![0; MAX_FRAME_BYTES - around + 1])).unwrap_err();
    assert_eq!(error.kind(), CodecErrorKind::TooLarge, "{error}");
}

#[test]
fn the_most_steps_come_back() {
    let progress = (0..crate::progress::MAX_STEPS).fold(Progress::begun(), |progress, step| {
        progress.with_result(&format!("step {step}"), 0, step.to_string()).unwrap()
    });
    let codec = Codec::new();
    let frame = codec.encode_progress(&progress, &scope(), &key()).unwrap();
    assert_eq!(codec.decode_progress(&frame, &scope(), &key()).unwrap(), progress);
}

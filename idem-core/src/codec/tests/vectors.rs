//! The frozen frames of format version 1, made apart from this code. A line here never changes;
//! docs/stored-format.md shows the same ones.

use super::*;

/// What `samples` gives, in its order, not sealed.
const PLAIN: [&str; 9] = [
    "01010000cc000000000000000000",
    "01010000c800000000010000000000000000",
    concat!(
        "01010000c9000000030000000a5365742d436f6f6b696500000003613d3100000004455461670000",
        "000322e9220000000a7365742d636f6f6b696500000003623d3201000000027b7d00000001000000",
        "0b677270632d7374617475730000000130",
    ),
    concat!(
        "01010200c8000000010000000c636f6e74656e742d7479706500000008746578742f637376010000",
        "000200000000",
    ),
    "01010201f40000000000",
    "01020001000000016e0000",
    concat!(
        "01020001000000137061796d656e74732f70726f64756374696f6e0100000007323032362d313101",
        "0100000004504f5354010000000f2f76312f636861726765733f613d31000000010000000c636f6e",
        "74656e742d74797065000000106170706c69636174696f6e2f6a736f6e0000000c7b22616d6f756e",
        "74223a357d",
    ),
    "01030000000000",
    concat!(
        "0103000000000200000007726573657276650000000001000000026f6b0000000663686172676500",
        "00000200",
    ),
];

/// Sealed with AES-256-GCM for scope `acct_1` and key `order-7`: the sample of this number, key
/// id `k1`, key 32 times 2a, nonce 00 to 0b.
#[cfg(feature = "aes-gcm")]
const SEALED: [(usize, &str); 4] = [
    (
        2,
        concat!(
            "010101026b31000102030405060708090a0b4ce454489c20233e9e39558ea691c6ec4281fbea991b",
            "b95349f2f5023779f5ea11b1338b83a69346acb0926d8314339aae7b9116deb88033fc5b2347ea96",
            "34d87a7ccbebcbff6545590737deb21dde0372881d3627fdd387124841927c021ebea07ea0f85522",
            "9fcf4d0511d28217",
        ),
    ),
    (
        4,
        concat!(
            "010103026b31000102030405060708090a0b4dd954489c23236acefcae0b846051a9f8a09bc0d6b3",
            "6b",
        ),
    ),
    (
        6,
        concat!(
            "010201026b31000102030405060708090a0b4d2d54488f534247f356689fa193f5f1428ee7eced72",
            "d63e29cfc402304bc19d73fd65ba82a790644596c222d04a41ffda56fd56c7e2c635943a5123edd8",
            "39b8474dcbe9b0836545590a54b1dc62dc1f76c6443c23f9a7f2615820e20d5eae1864d2377bd250",
            "af9594f175bbdb5b286c8af5e48cd17129cce45feed9ed62cf3459fe8d17d23527f6a861",
        ),
    ),
    (
        8,
        concat!(
            "010301026b31000102030405060708090a0b4c2d544a9c232339ec56758ea0cae0832dea928e991b",
            "b95247a4c402377f92c724a233ee83a690664596d3ffaddda5585ef4fe25a8da96d66b",
        ),
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn version_1_is_frozen() {
    let codec = Codec::new();
    assert_eq!(samples().len(), PLAIN.len());
    for (value, expected) in samples().into_iter().zip(PLAIN) {
        let frame = value.encode(&codec, &scope(), &key()).unwrap();
        assert_eq!(frame.as_bytes(), bytes(expected), "{value:?}");
        let stored = Sealed::from_bytes(bytes(expected));
        let read = Value::decode(value.kind(), &codec, &stored, &scope(), &key()).unwrap();
        assert_eq!(read, value);
    }
}

#[test]
#[cfg(feature = "aes-gcm")]
fn sealed_version_1_is_frozen() {
    let id = SecretId::new("k1").unwrap();
    let codec = Codec::sealed_by(Arc::new(crate::seal::AesGcmSealer::new(id, &[0x2a; 32])));
    for (sample, expected) in SEALED {
        let value = samples().swap_remove(sample);
        let stored = Sealed::from_bytes(bytes(expected));
        let read = Value::decode(value.kind(), &codec, &stored, &scope(), &key()).unwrap();
        assert_eq!(read, value);
        // What this codec writes has the same head, key id and length, and a nonce of its own.
        let again = value.encode(&codec, &scope(), &key()).unwrap();
        assert_eq!(again.len(), stored.len());
        assert_eq!(again.as_bytes()[..6], stored.as_bytes()[..6]);
    }
}

#[test]
fn the_page_shows_the_same_frames() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stored-format.md");
    let page = std::fs::read_to_string(page).unwrap().split_whitespace().collect::<String>();
    #[cfg(feature = "aes-gcm")]
    let sealed = SEALED.map(|(_, frame)| frame);
    #[cfg(not(feature = "aes-gcm"))]
    let sealed: [&str; 0] = [];
    for frame in PLAIN.into_iter().chain(sealed) {
        assert!(page.contains(frame), "{frame}");
    }
}

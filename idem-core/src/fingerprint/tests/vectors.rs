//! The frozen vectors of scheme 1, worked out apart from this code. A line here never changes;
//! docs/fingerprint.md shows the same ones.

use super::*;

const FORM: &str = "--x1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n\
    --x1\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\n\r\n--x1--\r\n";

fn hex(print: Fingerprint) -> String {
    assert_eq!(print.scheme(), Scheme::V1);
    print.digest().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn inputs_as_they_are() {
    let counting: Vec<u8> = (0..=255).collect();
    let vectors: [(&str, &[u8]); 3] = [
        ("f66456001d2705abe7c062d74a3f765154d5660dce09880b8c6f14a525498936", b""),
        ("13e29b6fad0b222daa1238491e7fc4301d0859d0ef8d1b08e64e7af1f4e52f90", b"abc"),
        ("14ed2a811dd3a60f009128076ef31bcc0b4a83a2677b546dfe7ea16ddcf0cde9", &counting),
    ];
    for (expected, input) in vectors {
        assert_eq!(hex(Fingerprint::of_bytes(input)), expected, "{input:?}");
    }
}

#[test]
fn json_inputs() {
    let (deepest, too_deep) =
        ("[".repeat(128) + &"]".repeat(128), "[".repeat(129) + &"]".repeat(129));
    let vectors = [
        ("6b887ed3d91d2531667c0a987b05a4dc7a92808052b89284f1c56f6163bcac54", "null"),
        ("bd473808b3c0d8fae87692abe217d60fc66a209dbe1ec787bbfbbf16ce11b535", "{}"),
        ("afe3d287ee1404cf00efb148f8c5abd6acf9140b1eaee2050e7dde30fface0f1", "[]"),
        ("b4c112b21defd7a1dec264daaa65eaaaf0dd3bb7fd37ae37ca960d1b197a9234", "\"\""),
        (
            "3aa6f8c036564fddae3653ae21df461e959dd7eefeb8a8e8d58a5bc8d1629783",
            r#"{"b":[1,2.50,-0],"a":"\u00e9\ud83d\ude00\n"}"#,
        ),
        ("435e3c1b8f89ea4b76e9e8b079f3e4e9c65c17631010f78e0bb0d76d789a9a1b", "9007199254740993"),
        ("cfe62efca1036759e92426d58b4e7ce064b4764b41bb95bf142a02ab68f9f3eb", "1e999999999"),
        (
            "f93461024f654b3c75485329a36df8cc99de17ed0b39c1b7855802113d099392",
            "{\"😀\":1,\"\u{fb33}\":2,\"a\\\"\":3,\"a\":4,\"a!\":5}",
        ),
        ("1ab277ee461a3140df8411676f7028197b2fbed317d8ceaceddb18a1050c3b25", r#"{"a":1,"a":1}"#),
        ("f95c578a366d38855221c865c43d6f97215c35ec724ee0024ec134ea2a7adc43", &deepest),
        ("9075e607061a3245b8cf65226f5c94092105acec3b4a36c791887d52f3fbd37d", &too_deep),
    ];
    for (expected, input) in vectors {
        assert_eq!(hex(Fingerprint::of_json(input)), expected, "{input}");
    }
}

#[test]
fn requests() {
    let charges = || Material::new("POST", "/v1/charges");
    let form = || Material::new("POST", "/upload").content_type("multipart/form-data; boundary=x1");
    let preamble = format!("\r\n{FORM}");
    let vectors = [
        ("7d596ad894e43a4b91f86b94422124878c92b6f2bee21b7c5bad58c7ad30cc61", charges()),
        (
            "848aa258aa3c33af0baa069eb13904a0ba5b8354b643cdc351768414a37242ce",
            charges().query("expand=card"),
        ),
        ("406e86b9cdd45cc2e4a4db5d253b418cf8e0c59b9178eec24306c6882d90becb", charges().query("")),
        (
            "af20f052811e2f967fc6c39047b642662771a0dd93891edfc95c37541e3b40dd",
            charges()
                .content_type("Application/JSON; charset=utf-8")
                .body(r#"{"amount": 100, "currency": "eur"}"#),
        ),
        (
            "cf8392ab7a22639b7874401a9821455933a3ea6d61a876449e4e3a90effd657e",
            Material::new("PATCH", "/v1/charges/7")
                .content_type("application/merge-patch+json")
                .body(r#"{"note":null}"#),
        ),
        (
            "fdfe7937e267ad4a41e968ad282f837205dd78bb7b2dcae23ae3ccb00af741b5",
            charges().content_type("application/json").body(r#"{"amount": 100,}"#),
        ),
        (
            "e214503284ee52f147e17a05f4348359f9eaea51c3aecf4b6253b820368482b1",
            charges()
                .content_type("application/x-www-form-urlencoded")
                .body("amount=100&currency=eur"),
        ),
        (
            "aace6edbf44084712de90c9861dd199b72ffde69bf86de66ea50e894f01196db",
            charges()
                .content_type("text/plain")
                .header("X-Region", [&b"eu"[..], b"us"])
                .header("Accept-Language", [&b"de"[..]])
                .body("ab"),
        ),
        ("c112d5f901162d280e43e5ee85b3969d8c3e984f7019a328b476c514ab1801c8", form().body(FORM)),
        (
            "b11a12b9c6d5d4a0d3596279036717d803a951fc554c9c80ba5ed6a24e38287b",
            form().body(&preamble),
        ),
        (
            "3bfd5c83ac15c7135c7c0b38a7222e68b176cd5fcc66b0103641a4c1fd21c614",
            form().content_type("multipart/mixed; boundary=x1").body(FORM),
        ),
        (
            "620911e4c937e82c374f858e4d216adb6d24251851572751cba54eb3631cf618",
            charges().content_type("JSON").body(r#"{"a": 1}"#),
        ),
    ];
    for (at, (expected, material)) in vectors.into_iter().enumerate() {
        assert_eq!(hex(material.fingerprint()), expected, "request {at}");
    }
}

//! The fingerprint of a body, against the hash of its bytes.

use std::hint::black_box;
use std::sync::Arc;

use idem_core::fingerprint::Fingerprint;
use sha2::{Digest as _, Sha256};

use crate::measure::{BoxError, Effort, Row, Subject, measure};

/// Measures bodies of about 16 KiB.
pub(crate) async fn run(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let items: Vec<_> = (0..256)
        .map(|item| serde_json::json!({"sku": format!("sku-{item}"), "amount": item, "note": "é"}))
        .collect();
    let body: Arc<[u8]> = serde_json::to_vec(&items)?.into();
    let subject = |name, hash: fn(&[u8])| {
        let body = Arc::clone(&body);
        Subject::new(name, move |_| {
            hash(&body);
            async { Ok(()) }
        })
    };
    let subjects = [
        subject("SHA-256 of the bytes", |body| {
            black_box(Sha256::digest(body));
        }),
        subject("as bytes", |body| {
            black_box(Fingerprint::of_bytes(body));
        }),
        subject("as JSON", |body| {
            black_box(Fingerprint::of_json(body));
        }),
    ];
    measure("fingerprint", &subjects, effort).await
}

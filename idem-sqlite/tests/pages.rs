//! Pages of large records.

mod support;

use idem_core::admin::{Admin, Filter};
use idem_core::store::Store;
use idem_sqlite::MAX_PAGE_BYTES;

use crate::support::{Place, Request, sealed};

#[tokio::test]
async fn a_page_of_large_replies_ends_early_and_goes_on() {
    let place = Place::new();
    let store = place.open().await;
    let reply = sealed(vec![7; 2 * 1024 * 1024]);
    let keys: Vec<String> = (0..20).map(|number| format!("key {number:02}")).collect();
    for key in &keys {
        let fence = Request::new(key).acquire(&store).await.fence;
        store.complete(&fence, &reply).await.unwrap();
    }
    let (mut seen, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = store.list(&Filter::all(), after.as_ref(), 1_000).await.unwrap();
        let bytes = page.records.len() * reply.len();
        assert!(bytes <= MAX_PAGE_BYTES + reply.len(), "{bytes} bytes in one page");
        let key = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        seen.extend(page.records.iter().map(|seen| key(seen.record.key.as_bytes())));
        pages += 1;
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, keys);
    assert_eq!(pages, 3);
}

//! Finding a record by the beginning of its scope: a scope is often too long to be typed.

use idem_core::admin::{Admin, Filter};
use idem_core::key::{Key, Scope};
use idem_core::store::MAX_PAGE;

use super::text::escape;
use crate::backends::store_failure;
use crate::exit::{Exit, Failure};

/// How many pages of records are looked through for a scope.
const MAX_PAGES: u32 = 100;
/// How many scopes are named where several begin alike.
const MAX_NAMED: usize = 10;

/// The one scope that begins with `prefix` and has a record under `key`.
///
/// # Errors
/// [`Exit::CheckFailed`] when there is none, more than one, or too many records to look through.
pub(super) async fn scope(store: &dyn Admin, prefix: &[u8], key: &Key) -> Result<Scope, Failure> {
    let refuse = |why: String| Err(Failure::new(Exit::CheckFailed, why));
    let mut found: Vec<Scope> = Vec::new();
    let mut after = None;
    for _ in 0..MAX_PAGES {
        let page = store.list(&Filter::all(), after.as_ref(), MAX_PAGE).await;
        let page = page.map_err(store_failure)?;
        // The listing is in byte order: what comes after the last that begins so does not count.
        let is_past =
            page.records.last().is_some_and(|seen| is_past(seen.record.scope.as_bytes(), prefix));
        let here = page.records.into_iter().map(|seen| seen.record);
        let here =
            here.filter(|record| record.scope.as_bytes().starts_with(prefix) && record.key == *key);
        found.extend(here.map(|record| record.scope));
        after = page.next;
        if is_past || after.is_none() || found.len() > MAX_NAMED {
            return match &found[..] {
                [] => refuse("there is no such record".into()),
                [_] => Ok(found.swap_remove(0)),
                several => refuse(format!("several scopes begin so: {}", named(several))),
            };
        }
    }
    refuse(format!(
        "{} records were looked through, and there are more; type the scope whole",
        MAX_PAGES * MAX_PAGE
    ))
}

/// Whether a scope comes after all that begin with `prefix`, in byte order.
pub(super) fn is_past(scope: &[u8], prefix: &[u8]) -> bool {
    scope > prefix && !scope.starts_with(prefix)
}

fn named(scopes: &[Scope]) -> String {
    let mut text: Vec<String> =
        scopes.iter().take(MAX_NAMED).map(|scope| escape(scope.as_bytes())).collect();
    if scopes.len() > MAX_NAMED {
        text.push("and more".into());
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use idem_core::memory::MemoryStore;

    use super::*;

    #[test]
    fn what_comes_after_a_prefix() {
        for (scope, past) in
            [("ab", false), ("abc", false), ("aa", false), ("ac", true), ("b", true)]
        {
            assert_eq!(is_past(scope.as_bytes(), b"ab"), past, "{scope}");
        }
        assert!(!is_past(b"a", b"ab"));
    }

    #[tokio::test]
    async fn nothing_is_found_in_an_empty_store() {
        let key = Key::new("k").unwrap();
        let failure = scope(&MemoryStore::new(), b"a", &key).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::CheckFailed);
    }
}

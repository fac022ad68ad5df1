//! Whether the file of an embedded store is there.

use std::path::PathBuf;

use idem_sqlite::sqlx::sqlite::SqliteConnectOptions;

/// The file that a store's URL names, where it is not there. `None` for a store that is no file.
pub(super) fn missing(url: &str) -> Option<PathBuf> {
    let is_memory = url.contains(":memory:") || url.contains("mode=memory");
    if !url.starts_with("sqlite:") || is_memory {
        return None;
    }
    let options: SqliteConnectOptions = url.parse().ok()?;
    let file = options.get_filename().to_owned();
    (!file.exists()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_not_there_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file.db");
        let url = format!("sqlite:{}", file.display()).replace(' ', "%20");
        assert_eq!(missing(&url), Some(file.clone()));
        std::fs::write(&file, "").unwrap();
        for url in [url.as_str(), "sqlite::memory:", "postgres://host/db", "memory:"] {
            assert_eq!(missing(url), None, "{url}");
        }
    }
}

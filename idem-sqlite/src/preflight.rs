//! What to look at before work is trusted to a database.

use std::path::{Path, PathBuf};

use idem_core::async_trait;
use idem_core::error::{StoreError, Verb};
use idem_core::preflight::{Finding, Preflight};
use sqlx::{Connection, Executor, SqliteConnection, SqlitePool};

use crate::error;
use crate::schema::{self, ask};
use crate::sql::{Tables, sql};
use crate::store::SqliteStore;

/// Below this many free pages under `max_page_count` there is a warning.
const FEW_PAGES: i64 = 1_024;

/// File systems on which several machines may see one file, or its locks may not work.
const SHARED_FILE_SYSTEMS: [&str; 12] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "gfs2",
    "ocfs2",
];

#[async_trait]
impl Preflight for SqliteStore {
    async fn preflight(&self) -> Result<Vec<Finding>, StoreError> {
        look(&self.shared.pools.writer, &self.shared.tables).await
    }
}

/// Looks at the database of a pool. What it tries to write it takes back.
pub(crate) async fn look(pool: &SqlitePool, tables: &Tables) -> Result<Vec<Finding>, StoreError> {
    let mut connection = pool.acquire().await.map_err(failed)?;
    let connection = &mut *connection;
    let mut findings = vec![
        sqlite_version(connection).await?,
        journal_mode(connection).await?,
        synchronous(connection).await?,
        schema_version(connection, tables).await?,
        writable(connection, tables).await?,
        room(connection).await?,
    ];
    findings.push(file_system(connection).await?);
    Ok(findings)
}

async fn sqlite_version(connection: &mut SqliteConnection) -> Result<Finding, StoreError> {
    let version: String = ask(connection, "SELECT sqlite_version()").await.map_err(failed)?;
    Ok(if schema::is_sound_sqlite(&version) {
        Finding::ok("sqlite-version", version)
    } else {
        let advice = "Link SQLite 3.51.3 or newer (or 3.50.7, 3.44.6): older ones can lose \
                      commits when the WAL is reset.";
        Finding::problem("sqlite-version", version, advice)
    })
}

async fn journal_mode(connection: &mut SqliteConnection) -> Result<Finding, StoreError> {
    let mode: String = ask(connection, "PRAGMA journal_mode").await.map_err(failed)?;
    Ok(if mode == "wal" {
        Finding::ok("journal-mode", mode)
    } else {
        let advice = "Migrate the database: that switches it to WAL. It has to be a file on disk.";
        Finding::problem("journal-mode", mode, advice)
    })
}

async fn synchronous(connection: &mut SqliteConnection) -> Result<Finding, StoreError> {
    let level: i64 = ask(connection, "PRAGMA synchronous").await.map_err(failed)?;
    let name = match level {
        0 => "OFF",
        1 => "NORMAL",
        2 => "FULL",
        _ => "EXTRA",
    };
    Ok(if level >= 2 {
        Finding::ok("synchronous", name)
    } else {
        let advice = "Do not set PRAGMA synchronous in a connection hook: below FULL a power cut \
                      loses commits that were acknowledged.";
        Finding::problem("synchronous", name, advice)
    })
}

async fn schema_version(
    connection: &mut SqliteConnection,
    tables: &Tables,
) -> Result<Finding, StoreError> {
    let version = schema::version(connection, tables).await?;
    let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    Ok(match schema::complaint(version) {
        None => Finding::ok("schema", found),
        Some(complaint) => Finding::problem("schema", found, complaint),
    })
}

async fn writable(
    connection: &mut SqliteConnection,
    tables: &Tables,
) -> Result<Finding, StoreError> {
    let check = "writable";
    let mut transaction = match connection.begin_with("BEGIN IMMEDIATE").await {
        Ok(transaction) => transaction,
        Err(error) if error::is_busy(&error) => {
            let advice = "Another connection held the write lock for the whole wait. Keep write \
                          transactions short, or allow a longer busy timeout.";
            return Ok(Finding::warning(check, "locked by another connection", advice));
        }
        Err(error) => return Err(failed(error)),
    };
    let probe = format!("CREATE TABLE {}_probe (x INTEGER) STRICT", tables.schema);
    let tried = transaction.execute(sql(probe)).await;
    let _ = transaction.rollback().await; // The pool closes the connection if this fails.
    Ok(match tried {
        Ok(_) => Finding::ok(check, "yes"),
        Err(error) => {
            let found = error::before_commit(Verb::Preflight, error).detail().to_owned();
            let advice = "The process needs to write the file, its -wal and -shm files, and its \
                          directory, and the disk needs room.";
            Finding::problem(check, found, advice)
        }
    })
}

/// Only the quota can be seen from here; how full the disk is, SQLite does not say.
async fn room(connection: &mut SqliteConnection) -> Result<Finding, StoreError> {
    let used: i64 = ask(connection, "PRAGMA page_count").await.map_err(failed)?;
    let free: i64 = ask(connection, "PRAGMA freelist_count").await.map_err(failed)?;
    let most: i64 = ask(connection, "PRAGMA max_page_count").await.map_err(failed)?;
    let left = most - used + free;
    let found = format!("{left} pages can still be filled, under the limit of {most}");
    Ok(if left >= FEW_PAGES {
        Finding::ok("room", found)
    } else {
        let advice = "Sweep more often, keep replies for a shorter time, or raise max_page_count. \
                      A full store refuses new work.";
        Finding::warning("room", found, advice)
    })
}

async fn file_system(connection: &mut SqliteConnection) -> Result<Finding, StoreError> {
    let check = "local-disk";
    let statement = "SELECT COALESCE(MAX(file), '') FROM pragma_database_list WHERE name = 'main'";
    let file: String = ask(connection, statement).await.map_err(failed)?;
    let advice = "WAL needs a disk of this machine: processes on two machines must not share the \
                  file.";
    Ok(match file_system_of(Path::new(&file)) {
        Some(kind) if SHARED_FILE_SYSTEMS.contains(&kind.as_str()) => {
            Finding::problem(check, kind, advice)
        }
        Some(kind) => Finding::ok(check, kind),
        None => Finding::warning(check, "the kind of file system could not be found out", advice),
    })
}

/// The kind of file system that holds `file`, where the system says so in `/proc`.
fn file_system_of(file: &Path) -> Option<String> {
    let file = std::fs::canonicalize(file).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_of_mount(&mounts, &file)
}

/// Of the mounts that hold `file` the one with the longest path, and of several there the last.
fn kind_of_mount(mounts: &str, file: &Path) -> Option<String> {
    let holding = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = PathBuf::from(mount.split(' ').nth(4)?.replace("\\040", " "));
        file.starts_with(&point).then(|| (point.components().count(), kind))
    });
    let (_, kind) = holding.max_by_key(|(depth, _)| *depth)?;
    kind.split(' ').next().map(str::to_owned)
}

fn failed(error: sqlx::Error) -> StoreError {
    error::before_commit(Verb::Preflight, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_latest_mount_holds_a_file() {
        let mounts = "22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:40 / /data rw - nfs4 host:/x rw\n\
                      31 30 0:41 / /data/my\\040disk rw - xfs /dev/vdb rw\n\
                      32 30 0:42 / /data rw - tmpfs none rw\n";
        let kind = |path: &str| kind_of_mount(mounts, Path::new(path)).unwrap();
        assert_eq!(kind("/home/a.db"), "ext4");
        assert_eq!(kind("/database/a.db"), "ext4");
        assert_eq!(kind("/data/a.db"), "tmpfs");
        assert_eq!(kind("/data/my disk/a.db"), "xfs");
        assert_eq!(kind_of_mount("nonsense\n", Path::new("/a")), None);
    }
}

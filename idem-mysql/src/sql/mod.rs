//! The text of every statement, made once for a table prefix.
//!
//! The rules do not stand here: a verb reads the record, asks the pure functions of
//! `idem_core::transition`, and writes what they say with `WHERE incarnation = … AND revision = …`
//! of what it has read. Every write adds one to `revision`, so the number of rows that the server
//! counts is 1 exactly where the write was made, with `CLIENT_FOUND_ROWS` and without it. What
//! looks for many records has conditions in SQL, in [`listing`], which are tested against the
//! pure functions with random records.
//!
//! Only what both MySQL and MariaDB accept is used: no `RETURNING`, no row alias of `INSERT`, no
//! `VALUES()` in an update.

pub(crate) mod listing;
mod outbox;
mod records;
mod tables;

pub(crate) use self::outbox::OutboxStatements;
pub(crate) use self::records::CHUNKS;
pub(crate) use self::tables::Tables;

/// Microseconds since 1970 on the server, as the statement began. `UTC_TIMESTAMP` knows no time
/// zone, and the difference of two times without one is plain arithmetic.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/// Where a statement reads the time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    table: Option<String>,
}

impl Clock {
    /// For tests: a table of one row and one column `now`.
    #[cfg(feature = "test-clock")]
    pub(crate) fn table(name: &str) -> Self {
        Self { table: Some(name.to_owned()) }
    }

    pub(crate) fn expression(&self) -> String {
        match &self.table {
            Some(table) => format!("(SELECT now FROM {table})"),
            None => CLOCK.to_owned(),
        }
    }
}

/// Every statement of the verbs.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The time.
    pub(crate) clock: String,
    /// Inserts where no row is visible.
    pub(crate) insert: String,
    /// Inserts, or locks the row that is there.
    pub(crate) insert_or_lock: String,
    pub(crate) find: Find,
    pub(crate) lock: Find,
    pub(crate) hold: String,
    pub(crate) set_lease: String,
    pub(crate) set_recovery: String,
    pub(crate) set_reply: String,
    pub(crate) make_anew: String,
    pub(crate) delete: String,
    pub(crate) remove: String,
    /// Lock and delete records in chunks of [`CHUNKS`] each.
    pub(crate) lock_chunk: Vec<String>,
    pub(crate) delete_chunk: Vec<String>,
    pub(crate) lapsed: Pages,
    pub(crate) list: Pages,
    pub(crate) list_in_scope: Pages,
    pub(crate) sweepable: String,
    pub(crate) forgettable: String,
    pub(crate) in_progress: String,
    pub(crate) stats: String,
    pub(crate) outbox: OutboxStatements,
}

/// Reads one record, with the long columns that a verb needs.
#[derive(Debug)]
pub(crate) struct Find {
    pub(crate) all: String,
    pub(crate) short: String,
    pub(crate) with_recovery: String,
    pub(crate) with_reply: String,
}

/// A page is measured first and read then.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) sizes: String,
    pub(crate) records: String,
}

impl Statements {
    pub(crate) fn new(tables: &Tables, clock: &Clock) -> Self {
        let records = &tables.records;
        let now = clock.expression();
        Self {
            insert: records::insert(records, &now),
            insert_or_lock: records::insert_or_lock(records, &now),
            find: records::find(records, &now, ""),
            lock: records::find(records, &now, " FOR UPDATE"),
            hold: records::hold(records),
            set_lease: records::set_lease(records),
            set_recovery: records::set_recovery(records),
            set_reply: records::set_reply(records),
            make_anew: records::make_anew(records),
            delete: records::delete(records),
            remove: records::remove(records),
            lock_chunk: CHUNKS.iter().map(|size| records::lock_chunk(records, *size)).collect(),
            delete_chunk: CHUNKS.iter().map(|size| records::delete_chunk(records, *size)).collect(),
            lapsed: listing::lapsed(records, &now),
            list: listing::list(records, &now, listing::AFTER),
            list_in_scope: listing::list(records, &now, listing::AFTER_IN_SCOPE),
            sweepable: listing::sweepable(records, &now),
            forgettable: listing::forgettable(records),
            in_progress: listing::in_progress(records),
            stats: listing::stats(records, &tables.outbox, &now),
            outbox: OutboxStatements::new(tables, &now),
            clock: format!("SELECT {now}"),
        }
    }
}

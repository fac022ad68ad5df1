//! The scripts: one for each verb (R1), put together from parts that they share.

use std::sync::LazyLock;

use redis::{Cmd, Script as Hashed, cmd};

/// One script, and what the server knows it by.
pub(crate) struct Script {
    text: Text,
    /// The same on a test's own clock.
    #[cfg(feature = "test-clock")]
    stepped: Text,
    /// Whether it may write, so that a lost answer leaves its outcome unknown.
    pub(crate) writes: bool,
}

/// A script's source, and its hash.
pub(crate) struct Text {
    source: String,
    hash: String,
}

impl Script {
    fn new(header: &str, parts: &[&str], writes: bool) -> Self {
        Self {
            text: Text::new(header, parts),
            #[cfg(feature = "test-clock")]
            stepped: Text::new(
                header,
                &parts.iter().map(|part| on_steps(part)).collect::<Vec<_>>(),
            ),
            writes,
        }
    }

    /// As it runs on the server's clock.
    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    /// As it runs on a clock whose time is sent as the last argument.
    #[cfg(feature = "test-clock")]
    pub(crate) fn stepped(&self) -> &Text {
        &self.stepped
    }

    /// May write; a full server refuses the first write of it, before anything is written.
    fn writing(parts: &[&str]) -> Self {
        Self::new("", &[&[CLOCK, RECORD], parts].concat(), true)
    }

    /// May write on a full server too: it adds nothing, or takes away.
    fn relieving(parts: &[&str]) -> Self {
        Self::new("#!lua flags=allow-oom\n", &[&[CLOCK, RECORD], parts].concat(), true)
    }

    fn reading(parts: &[&str]) -> Self {
        Self::new("#!lua flags=no-writes\n", &[&[CLOCK], parts].concat(), false)
    }

    fn laying_out(parts: &[&str]) -> Self {
        Self::new("", parts, true)
    }
}

impl Text {
    fn new(header: &str, parts: &[&str]) -> Self {
        let source = format!("{header}{}", parts.concat());
        let hash = Hashed::new(&source).get_hash().to_owned();
        Self { source, hash }
    }

    /// The call by hash: a server that has the script runs it.
    pub(crate) fn by_hash(&self, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> Cmd {
        call("EVALSHA", &self.hash, keys, arguments)
    }

    /// The call by source: the server runs it and keeps it, in one step, so that nobody can flush
    /// it in between.
    pub(crate) fn by_source(&self, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> Cmd {
        call("EVAL", &self.source, keys, arguments)
    }
}

const CLOCK: &str = include_str!("lua/clock.lua");
#[cfg(feature = "test-clock")]
const STEPPED_CLOCK: &str = include_str!("lua/stepped_clock.lua");
#[cfg(feature = "test-clock")]
fn on_steps(part: &str) -> &str {
    if part == CLOCK { STEPPED_CLOCK } else { part }
}

const RECORD: &str = include_str!("lua/record.lua");
const FENCE: &str = include_str!("lua/fence.lua");

macro_rules! scripts {
    ($($name:ident = $make:ident($($part:expr),*);)*) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::$make(&[$($part),*]));
    )*};
}

scripts! {
    CLAIM = writing(include_str!("lua/claim.lua"));
    RENEW = relieving(FENCE, include_str!("lua/renew.lua"));
    CHECKPOINT = writing(FENCE, include_str!("lua/checkpoint.lua"));
    COMPLETE = writing(FENCE, include_str!("lua/complete.lua"));
    RELEASE = relieving(FENCE, include_str!("lua/release.lua"));
    REMOVE = relieving(FENCE, include_str!("lua/remove.lua"));
    SWEEP = relieving(include_str!("lua/sweep.lua"));
    FORGET = relieving(include_str!("lua/forget.lua"));
    READ = reading(include_str!("lua/read.lua"));
    DUE = reading(include_str!("lua/due.lua"));
    NAMES = reading(include_str!("lua/names.lua"));
    STATS = reading(include_str!("lua/stats.lua"));
    LAYOUT = laying_out(include_str!("lua/layout.lua"));
}

fn call(name: &str, script: &str, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> Cmd {
    let mut call = cmd(name);
    call.arg(script).arg(keys.len());
    for bytes in keys.iter().chain(arguments) {
        call.arg(bytes.as_slice());
    }
    call
}

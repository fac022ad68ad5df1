//! The `idem` binary. The map of its modules stands at the top of `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(done) = idem_cli::conformance::worker() {
        return done;
    }
    idem_cli::run(std::env::args_os()).into()
}

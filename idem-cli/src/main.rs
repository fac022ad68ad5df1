//! The `idem` binary. The map of its modules stands at the top of `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    idem_cli::run(std::env::args_os()).into()
}

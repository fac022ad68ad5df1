//! The suite, on a clock that its cases step.

mod fixture;

fn main() -> std::process::ExitCode {
    fixture::stepped().main()
}

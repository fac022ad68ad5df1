//! The suite, on the machine's clock and from several processes.

mod fixture;

fn main() -> std::process::ExitCode {
    fixture::real_time().main()
}

//! How a run of the suite is told: a line for each case, or one JSON document.

use std::io::{self, Write};

use idem_testkit::conformance::Conformance;
use idem_testkit::report::{CaseReport, Outcome, Report};

use crate::exit::{Exit, Failure};
use crate::paint::Paint;

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line for each case as it ends, and more of one that failed.
    Words(Paint),
    /// The whole report, at the end.
    Json,
}

/// Runs the suite and tells it. The first write that fails is told at the end: a reader that has
/// gone away does not leave a store full of records.
pub(super) async fn told(
    suite: &Conformance,
    form: Form,
    mut out: impl Write,
) -> Result<Exit, Failure> {
    let mut written = Ok(());
    let report = suite.run_telling(|case| {
        if let (Form::Words(paint), Ok(())) = (form, &written) {
            written = line(&mut out, paint, case);
        }
    });
    let report = report.await;
    let written = written.and_then(|()| match form {
        Form::Words(paint) => sum(&mut out, paint, &report),
        Form::Json => {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)
        }
    });
    written.and_then(|()| out.flush()).map_err(|error| Failure::new(Exit::Setup, error))?;
    Ok(if report.is_conformant() { Exit::Success } else { Exit::CheckFailed })
}

fn line(out: &mut impl Write, paint: Paint, case: &CaseReport) -> io::Result<()> {
    match &case.outcome {
        Outcome::Passed => writeln!(out, "{}       {}", paint.good("ok"), case.case)?,
        Outcome::Ignored { reason } => {
            writeln!(out, "{}  {} ({reason})", paint.faint("ignored"), case.case)?;
        }
        Outcome::Failed(_) => write!(out, "{}   {case}", paint.bad("FAILED"))?,
    }
    out.flush()
}

fn sum(out: &mut impl Write, paint: Paint, report: &Report) -> io::Result<()> {
    let seconds = report.elapsed_ms as f64 / 1_000.0;
    let failed = format!("{} failed", report.failed);
    let failed = if report.failed > 0 { paint.bad(&failed) } else { failed };
    writeln!(
        out,
        "{}: {} passed, {failed}, {} ignored; seed {}; {seconds:.1} s",
        report.store, report.passed, report.ignored, report.seed
    )?;
    if report.passed == 0 && report.failed == 0 {
        writeln!(out, "no case could be tried: that proves nothing")?;
    }
    Ok(())
}

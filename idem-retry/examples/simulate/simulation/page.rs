//! The page and its plots.

use std::fmt::Write as _;

use super::layers::{CALLS, Point};
use super::outage::{KINDS, LOAD, OUTAGE, Run, SECONDS, TIMEOUT};
use super::server::{CAPACITY, QUEUE};
use super::svg::Plot;

pub(crate) fn page(seed: u64, outages: &[Run], loads: &[Vec<Run>], layers: &[Point]) -> String {
    let timeout = TIMEOUT.as_secs();
    let (from, until) = OUTAGE;
    let mut page = format!(
        "# What retries do to an outage\n\n\
         Made by `cargo run --release -p idem-retry --example simulate`, seed {seed}; do not edit. A test\n\
         checks that it is current. The loop, the budget and the rule of one layer are those of the crate;\n\
         the service, its clients and the time are simulated.\n\n\
         ## An outage under load\n\n\
         The service does {CAPACITY} requests a second and queues up to {QUEUE}; beyond that it answers 503\n\
         at once. It does not notice that a client has gone away. {LOAD} calls a second arrive, two thirds of\n\
         what it can do. An attempt is given up after {timeout} s. From second {from} to second {until} the\n\
         service hangs.\n\n\
         ![Attempts for each second](retry-simulation/attempts.svg)\n\n\
         ![Calls that succeed](retry-simulation/successes.svg)\n\n\
         | | attempts for each call in the outage | calls that failed, of {SECONDS} s | recovered after the outage |\n\
         |---|---|---|---|\n"
    );
    for run in outages {
        let (name, failed) = (run.kind.name(), run.failed());
        let (amplification, recovery) = (run.amplification(), recovery(run));
        let _ = writeln!(page, "| {name} | {amplification:.2} | {failed} | {recovery} |");
    }
    page += "\nWithout a budget the outage does not end when its cause does. Three attempts for each call are\n\
        more than the service can do, so its queue stays full, each request in it is older than its client's\n\
        patience, and all the work is for nobody, which makes all calls fail, and be retried. Nothing in the\n\
        service is broken any more. With a budget the attempts stay near the calls, the queue drains, and\n\
        retries come back with the successes that pay for them.\n\n\
        How long it takes depends on the load. The time from the end of the outage until 19 of 20 calls\n\
        succeed, and go on doing so:\n\n| calls a second |";
    for kind in KINDS {
        let _ = write!(page, " {} |", kind.name());
    }
    page += "\n|---|---|---|---|---|\n";
    for runs in loads {
        let _ = write!(page, "| {} |", runs[0].load);
        for run in runs {
            let _ = write!(page, " {} |", recovery(run));
        }
        page.push('\n');
    }
    page += "\nAt a load of which three times as much is within what the service can do, retries carry calls over\n\
        the end of the outage and do no harm. Nobody knows beforehand on which side of that line a service\n\
        will be in its worst hour.\n";
    page + &layers_section(layers)
}

fn layers_section(layers: &[Point]) -> String {
    let mut section = format!(
        "\n## Three layers\n\n\
         Three services in a row, each of which makes up to three attempts at the next, without a budget.\n\
         Each handles a request in a task of its own. Under the rule of one layer, the first one retries and\n\
         those behind it run once. {CALLS} calls for each row:\n\n\
         ![Attempts at the bottom](retry-simulation/layers.svg)\n\n\
         | attempts that fail at the bottom | attempts for each call, one layer | succeeded | \
         attempts for each call, three layers | succeeded |\n|---|---|---|---|---|\n"
    );
    for point in layers {
        let Point { failure_rate, with_rule, without_rule } = point;
        let _ = writeln!(
            section,
            "| {failure_rate} % | {:.2} | {} | {:.2} | {} |",
            with_rule.attempts_per_call(),
            with_rule.succeeded,
            without_rule.attempts_per_call(),
            without_rule.succeeded,
        );
    }
    section
        + "\nThree layers do get more calls through while single attempts fail at random. When everything\n\
        fails they get nothing through, and send 27 attempts for each call where one layer sends 3. Whoever\n\
        needs more attempts sets them at the one layer that retries, under its deadline and its budget.\n"
}

fn recovery(run: &Run) -> String {
    match run.recovery() {
        Some(seconds) => format!("{seconds} s"),
        None => format!("not within {} s", SECONDS - OUTAGE.1),
    }
}

pub(crate) fn attempts_plot(outages: &[Run]) -> String {
    over_time(outages, "Attempts that the service gets", "attempts a second", |run| &run.attempts)
}

pub(crate) fn successes_plot(outages: &[Run]) -> String {
    let title = "Calls that succeed, by the second in which they began";
    over_time(outages, title, "calls a second", |run| &run.succeeded)
}

fn over_time(outages: &[Run], title: &str, up: &str, values: impl Fn(&Run) -> &[u32]) -> String {
    let line = |run: &Run| {
        let points = values(run).iter().enumerate();
        (run.kind.name(), points.map(|(at, value)| (at as f64, f64::from(*value))).collect())
    };
    let most = outages.iter().flat_map(&values).max().copied().unwrap_or(0);
    let most = f64::from(most.div_ceil(50) * 50 + 100);
    Plot {
        title,
        across: "seconds",
        up,
        across_to: (SECONDS as f64, 10.0),
        up_to: (most, 50.0),
        shaded: Some((OUTAGE.0 as f64, OUTAGE.1 as f64, "the service hangs")),
        lines: outages.iter().map(line).collect(),
    }
    .svg()
}

pub(crate) fn layers_plot(layers: &[Point]) -> String {
    let line = |value: fn(&Point) -> f64| {
        layers.iter().map(|point| (f64::from(point.failure_rate), value(point))).collect()
    };
    Plot {
        title: "Attempts at the bottom for each call at the top",
        across: "per cent of the attempts at the bottom that fail",
        up: "attempts",
        across_to: (100.0, 10.0),
        up_to: (30.0, 3.0),
        shaded: None,
        lines: vec![
            ("one layer retries", line(|point| point.with_rule.attempts_per_call())),
            ("three layers retry", line(|point| point.without_rule.attempts_per_call())),
        ],
    }
    .svg()
}

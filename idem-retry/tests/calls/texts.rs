//! What an outcome says in words.

use idem_retry::classify::Fault;
use idem_retry::{Applied, AttemptTimeout, Attempted, Class};
use idem_retry::{Destination, Outcome, Policy, retry};

use crate::support::{Bench, Step, gave_up, ms, status, unknown};

const IN_USE: &str = "urn:idem:problem:key-in-use";

#[test]
fn an_error_is_named_and_whether_it_was_applied() {
    let mut bench = Bench::keyed();
    let text = gave_up(bench.call(&[0; 3].map(|_| Step::Fault(Fault::NotSent)))).to_string();
    assert_eq!(
        text,
        "gave up after 3 attempts in 0ns: all attempts were made; the last attempt failed: nothing \
         was sent; it was not applied"
    );
    let steps =
        [Step::Fault(Fault::Lost), Step::Fault(Fault::NotSent), Step::Fault(Fault::NotSent)];
    let text = unknown(bench.call(&steps)).to_string();
    assert!(text.starts_with("outcome unknown after 3 attempts in "), "{text}");
    assert!(text.ends_with("failed: nothing was sent; it may have been applied"), "{text}");
    // Whoever calls the loop alone has the answer, which has no name here.
    let conflict = || Step::Conflict(IN_USE, vec![("retry-after", "1")]);
    let text = unknown(bench.call(&[conflict(), conflict(), conflict()])).to_string();
    assert!(
        text.ends_with(
            "the last attempt had an answer, to come back after 1s; it may have been applied"
        ),
        "{text}"
    );
    let mut unkeyed = Bench::unkeyed();
    let text = unknown(unkeyed.call(&[status(502)])).to_string();
    assert!(text.starts_with("outcome unknown after 1 attempt in"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_text_is_one_short_line_and_a_timeout_is_named() {
    let policy = Policy::builder()
        .attempts(1)
        .attempt_timeout(AttemptTimeout::Fixed(ms(5)))
        .build()
        .unwrap();
    let classify = |_: Attempted<'_, (), String>| Class::transient(Applied::Unlikely);
    let destination = Destination::named("texts");
    let long = format!("first\nsecond {}", "x".repeat(500));
    let failed = retry(&policy, &destination, classify, |_| std::future::ready(Err(long.clone())));
    let Outcome::GaveUp(unfinished) = failed.await else { panic!("it is not uncertain") };
    let text = unfinished.to_string();
    assert!(text.contains("failed: first second xxx") && text.contains("xxx…;"), "{text}");
    assert!(text.len() < 350 && text.ends_with("; it was most likely not applied"), "{text}");
    let hangs = retry(&policy, &destination, classify, |_| std::future::pending());
    let Outcome::GaveUp(unfinished) = hangs.await else { panic!("it is not uncertain") };
    let text = unfinished.to_string();
    assert!(text.contains("; the last attempt was dropped at its timeout;"), "{text}");
}

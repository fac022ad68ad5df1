//! What is said of a store that breaks a promise. No URL leads to such a store, so these go
//! through the library.

use idem_cli::conformance::{Form, tell};
use idem_cli::exit::Exit;
use idem_cli::paint::Paint;
use idem_testkit::broken::{BrokenStore, catalogue};
use serde_json::Value;

/// The first of the catalogue, alone with the case that is named for it.
fn broken() -> BrokenStore {
    catalogue().into_iter().next().unwrap()
}

async fn told(form: Form) -> (String, Exit) {
    let broken = broken();
    let suite = broken.conformance().case(broken.caught_by()).seed(7);
    let mut out = Vec::new();
    let exit = tell(&suite, form, &mut out).await.unwrap();
    (String::from_utf8(out).unwrap(), exit)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_case_rule_expected_seen_seed_and_how_to_run_it_again() {
    let (text, exit) = told(Form::Words(Paint::Plain)).await;
    assert_eq!(exit, Exit::CheckFailed);
    let broken = broken();
    assert!(text.starts_with(&format!("FAILED   {}\n", broken.caught_by())), "{text}");
    for part in ["  rule:     R", "  expected: ", "  seen:     ", "  seed:     7\n", "  rerun:    "]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(text.contains(": 0 passed, 1 failed, 0 ignored; seed 7; "), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_sees_it_in_red_and_a_script_in_json() {
    let (text, exit) = told(Form::Words(Paint::Colours)).await;
    assert_eq!(exit, Exit::CheckFailed);
    assert!(text.starts_with("\x1b[1;31mFAILED\x1b[0m   "), "{text:?}");
    let (text, exit) = told(Form::Json).await;
    assert_eq!(exit, Exit::CheckFailed);
    let report: Value = serde_json::from_str(&text).unwrap();
    let case = &report["cases"][0];
    assert_eq!((&case["outcome"], &case["seed"]), (&Value::from("failed"), &Value::from(7)));
    for member in ["case", "rules", "about", "expected", "seen", "rerun"] {
        assert!(case[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {case}");
    }
}

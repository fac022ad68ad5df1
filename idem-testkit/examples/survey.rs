//! Survey of the broken stores (scratch).

use idem_testkit::broken;
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() {
    let arg = std::env::args().nth(1);
    if arg.as_deref() == Some("right") {
        for r in [broken::right(), broken::right_behind_a_connection()] {
            let r = r.jobs(8).run().await;
            for f in r.failures() {
                println!("{f}");
            }
            println!(
                "{}: {} passed {} failed {} ignored {}ms",
                r.store, r.passed, r.failed, r.ignored, r.elapsed_ms
            );
        }
        return;
    }
    let full = arg.as_deref() == Some("full");
    let mut missed = 0;
    let mut killers = std::collections::BTreeMap::<String, usize>::new();
    let mut names = std::collections::BTreeSet::new();
    for store in broken::catalogue() {
        assert!(names.insert(store.name()), "twice: {}", store.name());
        let named = store.conformance().case(store.caught_by()).run().await;
        let ok = named.failed == 1;
        if !ok {
            missed += 1;
        }
        let why = named
            .failures()
            .next()
            .map(|f| match &f.outcome {
                idem_testkit::report::Outcome::Failed(b) => {
                    format!("exp {} | saw {}", b.expected, b.seen)
                }
                _ => String::new(),
            })
            .unwrap_or_default();
        let why: String = why.chars().take(200).collect();
        println!(
            "{} {} by {}: {}",
            if ok { "killed" } else { "MISSED" },
            store.name(),
            store.caught_by(),
            why
        );
        if full {
            let r = store
                .conformance()
                .case_limit(std::time::Duration::from_secs(10))
                .jobs(16)
                .run()
                .await;
            let all: Vec<_> = r.failures().map(|f| f.case.clone()).collect();
            for c in &all {
                *killers.entry(c.clone()).or_default() += 1;
            }
            println!("    {} in all, {} ms", all.len(), r.elapsed_ms);
            if !ok {
                println!("    {:?}", &all[..all.len().min(12)]);
            }
        }
    }
    println!("{} stores, {} missed", names.len(), missed);
    if full {
        for c in idem_testkit::cases::all() {
            if !killers.contains_key(c.name()) {
                println!("no kill: {}", c.name());
            }
        }
    }
}

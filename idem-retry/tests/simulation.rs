//! The page on what retries do to an outage is current, and says what its text says.

use std::path::Path;

#[path = "../examples/simulate/simulation/mod.rs"]
mod simulation;

#[test]
fn the_page_and_its_plots_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for (name, content) in simulation::files(simulation::SEED) {
        let kept = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(
            kept == content,
            "docs/{name} is not current; run cargo run --release -p idem-retry --example simulate"
        );
    }
}

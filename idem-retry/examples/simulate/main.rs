//! Writes the page on what retries do to an outage, with its plots: the real loop, budget and
//! layers of this crate, against a simulated service, on simulated time.
//!
//! ```sh
//! cargo run --release -p idem-retry --example simulate
//! ```
//!
//! One seed gives the same files, byte for byte; a test compares them with those in `docs/`.

use std::io;
use std::path::Path;

mod simulation;

fn main() -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for (name, content) in simulation::files(simulation::SEED) {
        let path = docs.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, content)?;
        println!("docs/{name}");
    }
    Ok(())
}

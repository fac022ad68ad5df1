//! A ledger that cannot grow: no effect, no half line, and all is well when there is room again.

use std::fs;
use std::process::Command;

use crate::support::http;
use crate::support::process::{IDEM, Process, Server};
use crate::{Bench, charge, charged, key, totals};

/// Starts a network whose files may have only so many blocks of 512 bytes. A write past the
/// limit is cut short first and then fails, as on a full disk.
fn limited(bench: &Bench, blocks: u32) -> Server {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, IDEM, "network", "--ledger"]).arg(bench.ledger());
    Server::listening(Process::start(&mut command))
}

#[test]
fn a_full_disk_means_no_effect_and_503() {
    // At some of these limits the line that does not fit is a call's, at others a charge's.
    let mut calls_refused = 0;
    for blocks in 4..12 {
        let bench = Bench::new();
        let mut network = limited(&bench, blocks);
        let mut done = 0;
        let refused = loop {
            let reply = charge(network.address, &key(done), 500).unwrap();
            if reply.status != 200 {
                break reply;
            }
            done += 1;
            assert!(done < 1_000, "the limit does not work");
        };
        assert_eq!((refused.status, refused.code().as_str()), (503, "unavailable"));
        assert!(done > 0);
        let (calls, effects, _) = totals(network.address);
        assert_eq!(effects, u64::from(done));
        calls_refused += u32::from(calls == effects);
        let again = charge(network.address, &key(done), 500).unwrap();
        assert_eq!(again.status, 503);
        assert!(fs::read(bench.ledger()).unwrap().ends_with(b"\n"), "half a line was left");
        network.process.kill();

        let network = bench.start(&[]);
        assert_eq!(totals(network.address).1, u64::from(done));
        charged(network.address, &key(done), 500);
        assert_eq!(totals(network.address).1, u64::from(done) + 1);
        assert_eq!(http::get(network.address, "/healthz")["status"], "ok");
    }
    assert!((1..8).contains(&calls_refused), "only one kind of line was refused");
}

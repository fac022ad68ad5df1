//! Nights as they go wrong.

use std::fs;
use std::sync::Arc;

use idem_core::housekeeping::Reconciler;

use super::*;

/// So long that nobody takes over, however slow the machine is.
const LONG: Duration = Duration::from_secs(60);
/// So short that it can be waited for.
const SHORT: Duration = Duration::from_millis(300);

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn mailer(&self) -> Mailer {
        Mailer::new(self.folder.path().join("mails.txt"))
    }

    async fn job(&self, lease: Duration) -> Job {
        let store = SqliteStore::open(self.folder.path().join("jobs.db")).await.unwrap();
        Job::new(store, self.mailer(), lease).unwrap()
    }

    fn receivers(&self) -> Vec<String> {
        let of = |line: &String| line.split(' ').nth(1).unwrap().to_owned();
        self.mailer().sent().unwrap().iter().map(of).collect()
    }
}

fn night(customers: &[&str]) -> Night {
    let customers = customers.iter().map(|&name| name.to_owned()).collect();
    Night { day: "2026-03-01".into(), customers }
}

#[tokio::test]
async fn machines_that_start_together_run_it_once() {
    let place = Arc::new(Place::new());
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let place = Arc::clone(&place);
            tokio::spawn(async move {
                place
                    .job(LONG)
                    .await
                    .run(&night(&["ada", "grace"]))
                    .await
                    .map_err(|e| e.to_string())
            })
        })
        .collect();
    let mut here = 0;
    for run in runs {
        here += u32::from(run.await.unwrap().unwrap() == Ran::Here);
    }
    assert_eq!((here, place.receivers()), (1, vec!["ada".to_owned(), "grace".to_owned()]));
    // Somebody set the clock back.
    assert_eq!(place.job(LONG).await.run(&night(&["ada"])).await.unwrap(), Ran::Before);
    assert_eq!(place.receivers().len(), 2);
}

/// The mail service fails in the middle, and the next start mails only who is left.
#[tokio::test]
async fn a_run_that_failed_goes_on_where_it_stopped() {
    let place = Place::new();
    let job = place.job(SHORT).await;
    let mails = place.folder.path().join("mails.txt");
    // A folder in its place: nothing can be sent.
    fs::create_dir(&mails).unwrap();
    let failed = job.run(&night(&["ada", "grace"])).await.unwrap_err();
    assert!(failed.to_string().contains("not known"), "{failed}");
    fs::remove_dir(&mails).unwrap();
    let ran = loop {
        // Until the lease is over, the first run might still be at it.
        match job.run(&night(&["edsger"])).await.unwrap() {
            Ran::Elsewhere => tokio::time::sleep(Duration::from_millis(20)).await,
            ran => break ran,
        }
    };
    // It works on the night's list as it was, and not on today's.
    assert_eq!((ran, place.receivers()), (Ran::Here, vec!["ada".to_owned(), "grace".to_owned()]));
}

/// Nobody starts it again: the reconciler of any service with this job does.
#[tokio::test]
async fn a_run_that_failed_is_resumed_without_being_started() {
    let place = Place::new();
    let job = place.job(SHORT).await;
    let mails = place.folder.path().join("mails.txt");
    fs::create_dir(&mails).unwrap();
    job.run(&night(&["ada", "grace"])).await.unwrap_err();
    fs::remove_dir(&mails).unwrap();
    let reconciler = Reconciler::new(job.engine.clone());
    while place.receivers().len() < 2 {
        reconciler.once().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(place.receivers(), ["ada", "grace"]);
}

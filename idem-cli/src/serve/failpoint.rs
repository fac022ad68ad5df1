//! Named places where a test, or the demo, stops or kills the server exactly in the window.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// How often a waiting failpoint looks whether its file is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A place in the life of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The claim is committed and "begun" is marked; the card network was not called yet.
    BeforeCall,
    /// The card network has answered; nothing of its answer is stored yet.
    AfterCall,
    /// The answer is stored as a recovery point; the reply is made, and nobody was given it.
    BeforeComplete,
    /// The reply is stored; the client was not answered yet.
    AfterComplete,
}

/// What happens at a [`Point`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The process sends itself SIGKILL.
    Kill,
    /// The process sends itself SIGSTOP; SIGCONT lets it go on.
    Stop,
    /// The execution makes this file, then waits until somebody deletes it.
    Wait(PathBuf),
}

/// One failpoint of the command line: `POINT=kill`, `POINT=stop` or `POINT=wait:FILE`; `:once`
/// at the end arms it for the first execution only.
///
/// ```
/// use idem_cli::serve::failpoint::{Failpoint, Point};
///
/// let failpoint: Failpoint = "after-call=kill:once".parse()?;
/// assert_eq!(failpoint.point, Point::AfterCall);
/// assert!(failpoint.once);
/// # Ok::<(), idem_cli::serve::failpoint::FailpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failpoint {
    /// Where.
    pub point: Point,
    /// What.
    pub action: Action,
    /// Whether only the first time.
    pub once: bool,
}

/// A text that is no failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailpointError {
    /// It names no place.
    #[error(
        "a failpoint is POINT=ACTION, where POINT is before-call, after-call, before-complete \
         or after-complete"
    )]
    Point,
    /// It names nothing to do.
    #[error("the action of a failpoint is kill, stop or wait:FILE, with :once after it or not")]
    Action,
}

/// The failpoints of a server. Clones share what was used up.
#[derive(Debug, Clone, Default)]
pub struct Failpoints {
    armed: Arc<[Armed]>,
}

#[derive(Debug)]
struct Armed {
    failpoint: Failpoint,
    used: AtomicBool,
}

impl Failpoints {
    /// Arms these.
    pub fn new(failpoints: impl IntoIterator<Item = Failpoint>) -> Self {
        let armed = failpoints
            .into_iter()
            .map(|failpoint| Armed { failpoint, used: AtomicBool::new(false) });
        Self { armed: armed.collect() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.armed.is_empty()
    }

    /// Does what is armed for this point. It says so on standard error first.
    ///
    /// # Cancel safety
    /// Dropping it ends the wait.
    pub async fn reach(&self, point: Point) {
        for armed in self.armed.iter().filter(|armed| armed.failpoint.point == point) {
            if armed.used.swap(true, Ordering::SeqCst) && armed.failpoint.once {
                continue;
            }
            let action = &armed.failpoint.action;
            tracing::warn!("failpoint {point}: {action}");
            if let Err(error) = act(action).await {
                tracing::error!(%error, "failpoint {point} did not work");
            }
        }
    }
}

async fn act(action: &Action) -> io::Result<()> {
    match action {
        Action::Kill => {
            kill_process(getpid(), Signal::KILL)?;
            // The signal ends the process before anything else can be done.
            std::future::pending().await
        }
        Action::Stop => Ok(kill_process(getpid(), Signal::STOP)?),
        Action::Wait(file) => wait(file).await,
    }
}

async fn wait(file: &Path) -> io::Result<()> {
    tokio::fs::write(file, "").await?;
    while tokio::fs::try_exists(file).await? {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

impl FromStr for Failpoint {
    type Err = FailpointError;

    fn from_str(text: &str) -> Result<Self, FailpointError> {
        let (point, action) = text.split_once('=').ok_or(FailpointError::Point)?;
        let point = Point::ALL.into_iter().find(|known| known.name() == point);
        let (action, once) = match action.strip_suffix(":once") {
            Some(action) => (action, true),
            None => (action, false),
        };
        let action = match action {
            "kill" => Action::Kill,
            "stop" => Action::Stop,
            other => match other.strip_prefix("wait:") {
                Some(file) if !file.is_empty() => Action::Wait(file.into()),
                _ => return Err(FailpointError::Action),
            },
        };
        Ok(Self { point: point.ok_or(FailpointError::Point)?, action, once })
    }
}

impl Point {
    const ALL: [Self; 4] =
        [Self::BeforeCall, Self::AfterCall, Self::BeforeComplete, Self::AfterComplete];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeCall => "before-call",
            Self::AfterCall => "after-call",
            Self::BeforeComplete => "before-complete",
            Self::AfterComplete => "after-complete",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Wait(_) => "wait",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Failpoint, FailpointError> {
        text.parse()
    }

    #[test]
    fn every_point_and_action_is_read() {
        for point in Point::ALL {
            let kill = parse(&format!("{point}=kill")).unwrap();
            assert_eq!(kill, Failpoint { point, action: Action::Kill, once: false });
        }
        let stop = parse("before-complete=stop:once").unwrap();
        assert_eq!((stop.action, stop.once), (Action::Stop, true));
        let wait = parse("after-call=wait:/some/a=b:file:once").unwrap();
        assert_eq!((wait.action, wait.once), (Action::Wait("/some/a=b:file".into()), true));
    }

    #[test]
    fn every_fault_has_its_own_error() {
        for text in ["", "kill", "during-call=kill", "=kill", "After-Call=kill"] {
            assert_eq!(parse(text), Err(FailpointError::Point), "{text}");
        }
        for text in ["after-call=", "after-call=die", "after-call=wait:", "after-call=wait:once"] {
            assert_eq!(parse(text), Err(FailpointError::Action), "{text}");
        }
    }

    #[tokio::test]
    async fn a_wait_lasts_until_its_file_is_gone_and_once_is_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("reached");
        let failpoints = Failpoints::new([Failpoint {
            point: Point::AfterCall,
            action: Action::Wait(file.clone()),
            once: true,
        }]);
        failpoints.reach(Point::BeforeCall).await;
        assert!(!file.exists());

        let waiting = tokio::spawn({
            let failpoints = failpoints.clone();
            async move { failpoints.reach(Point::AfterCall).await }
        });
        while !file.exists() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        failpoints.reach(Point::AfterCall).await;
        assert!(!waiting.is_finished());
        std::fs::remove_file(&file).unwrap();
        waiting.await.unwrap();
        assert!(!file.exists());
    }
}

//! A TCP proxy that cuts a connection exactly at a message, such as a COMMIT: at random, for a
//! test under load, or once.
//!
//! It knows no protocol. [`Framing`] says where a client's messages end and which of them count;
//! what comes back is passed on as it comes. [`proxy`](super::proxy) needs none of this, and cuts
//! at an offset.
//!
//! ```
//! use idem_testkit::faults::messages::{Cut, Framing, Lose, MessageProxy, Sort};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! /// One byte of length, and then a word.
//! struct Words;
//!
//! impl Framing for Words {
//!     fn head_bytes(&self) -> usize {
//!         1
//!     }
//!     fn body_bytes(&self, head: &[u8]) -> Option<usize> {
//!         Some(usize::from(head[0]))
//!     }
//!     fn sort(&mut self, message: &[u8]) -> Sort {
//!         if message.ends_with(b"COMMIT") { Sort::Commit } else { Sort::Request }
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let server = TcpListener::bind("127.0.0.1:0").await?;
//! let proxy = MessageProxy::to(server.local_addr()?, || Words).await?;
//! proxy.arm(Cut::Commit(Lose::Request));
//!
//! let mut client = TcpStream::connect(proxy.address()).await?;
//! client.write_all(b"\x06INSERT\x06COMMIT").await?;
//! let (mut accepted, _) = server.accept().await?;
//! let mut seen = Vec::new();
//! accepted.read_to_end(&mut seen).await?;
//! assert_eq!(seen, b"\x06INSERT");
//! assert_eq!((proxy.cuts().requests, proxy.cuts().replies, proxy.cuts().commits), (1, 0, 1));
//! # Ok::<_, std::io::Error>(()) }).unwrap();
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::random::Random;

/// The most bytes of one message after its head: 256 MiB.
pub const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// How one client's messages are told apart: one value for each connection, from its first byte.
pub trait Framing: Send + 'static {
    /// How many bytes of the next message say how long it is.
    fn head_bytes(&self) -> usize;

    /// How many bytes follow them. `None` when these bytes cannot be a head: the connection is then
    /// closed, as it is for more than [`MAX_BODY_BYTES`].
    fn body_bytes(&self, head: &[u8]) -> Option<usize>;

    /// What a whole message is.
    fn sort(&mut self, message: &[u8]) -> Sort;
}

/// What a message of the client's is to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// It is never cut: a part of the handshake, or one that nothing answers.
    Passing,
    /// It asks for something.
    Request,
    /// It asks for what was done to be made durable.
    Commit,
}

/// What does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lose {
    /// The message itself.
    Request,
    /// The answer: the server has done what it was asked.
    Reply,
}

/// Which messages are cut, and with them their connections.
#[derive(Debug, Clone)]
pub enum Cut {
    /// None.
    Nothing,
    /// The next commit, once.
    Commit(Lose),
    /// Each message with this chance, and a commit with four times that; which of both is lost is
    /// a matter of chance too.
    OneIn(u64, Random),
}

/// What was cut so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Cuts {
    /// Requests that did not arrive.
    pub requests: usize,
    /// Requests that arrived, and were not answered.
    pub replies: usize,
    /// How many of both were commits.
    pub commits: usize,
}

impl Cuts {
    /// Of both sorts.
    pub fn total(self) -> usize {
        self.requests + self.replies
    }
}

/// A proxy on a free port of loopback. Dropping it closes everything that goes through it.
#[derive(Debug)]
pub struct MessageProxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    cut: Cut,
    cuts: Cuts,
}

impl MessageProxy {
    /// Listens on loopback and forwards each connection to `target`, in messages as a `framing` of
    /// its own tells them apart. While the target cannot be reached, clients see theirs closed.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn to<F: Framing>(
        target: SocketAddr,
        framing: impl Fn() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared { cut: Cut::Nothing, cuts: Cuts::default() }));
        let accepting = tokio::spawn(accept(listener, target, framing, shared.clone()));
        Ok(Self { address, shared, accepting: accepting.abort_handle() })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is cut from now on.
    pub fn arm(&self, cut: Cut) {
        locked(&self.shared).cut = cut;
    }

    /// What was cut so far.
    pub fn cuts(&self) -> Cuts {
        locked(&self.shared).cuts
    }
}

impl Drop for MessageProxy {
    fn drop(&mut self) {
        // The task owns the connections' tasks, which end with it.
        self.accepting.abort();
    }
}

impl Shared {
    /// Whether this message is cut, and what is lost.
    fn decide(&mut self, sort: Sort) -> Option<Lose> {
        let is_commit = sort == Sort::Commit;
        let lose = match &mut self.cut {
            _ if sort == Sort::Passing => None,
            Cut::Nothing => None,
            Cut::Commit(lose) => {
                let lose = is_commit.then_some(*lose);
                if lose.is_some() {
                    self.cut = Cut::Nothing;
                }
                lose
            }
            Cut::OneIn(one_in, random) => {
                let one_in = if is_commit { (*one_in / 4).max(1) } else { *one_in };
                let lose = if random.chance(2) { Lose::Request } else { Lose::Reply };
                random.chance(one_in).then_some(lose)
            }
        }?;
        match lose {
            Lose::Request => self.cuts.requests += 1,
            Lose::Reply => self.cuts.replies += 1,
        }
        self.cuts.commits += usize::from(is_commit);
        Some(lose)
    }
}

async fn accept<F: Framing>(
    listener: TcpListener,
    target: SocketAddr,
    framing: impl Fn() -> F,
    shared: Arc<Mutex<Shared>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if let Ok(server) = TcpStream::connect(target).await {
            connections.spawn(relay(client, server, framing(), shared.clone()));
        }
    }
}

async fn relay<F: Framing>(
    client: TcpStream,
    server: TcpStream,
    framing: F,
    shared: Arc<Mutex<Shared>>,
) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let muted = watch::Sender::new(false);
    let replies = replies(from_server, to_client, muted.subscribe());
    // Whichever way ends first takes the other with it.
    tokio::select! {
        () = replies => {}
        () = requests(from_client, to_server, framing, &shared, &muted) => {}
    }
}

async fn requests<F: Framing>(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut framing: F,
    shared: &Mutex<Shared>,
    muted: &watch::Sender<bool>,
) {
    while let Some(message) = message(&mut from, &mut framing).await {
        let sort = framing.sort(&message);
        let lose = locked(shared).decide(sort);
        match lose {
            Some(Lose::Request) => return,
            Some(Lose::Reply) => {
                muted.send_replace(true);
            }
            None => {}
        }
        if to.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Ends with the first answer that is not passed on.
async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, muted: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) if *muted.borrow() => return,
            Ok(count) => {
                if to.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// One whole message; `None` at the end of them.
async fn message(from: &mut OwnedReadHalf, framing: &mut impl Framing) -> Option<Vec<u8>> {
    let mut message = vec![0; framing.head_bytes()];
    from.read_exact(&mut message).await.ok()?;
    let body = framing.body_bytes(&message).filter(|bytes| *bytes <= MAX_BODY_BYTES)?;
    let head = message.len();
    message.resize(head + body, 0);
    from.read_exact(&mut message[head..]).await.ok()?;
    Some(message)
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

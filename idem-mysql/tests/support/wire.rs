//! A proxy that knows MySQL's packets, so that it can cut a connection exactly at a COMMIT.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::random::Random;

/// What does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lose {
    /// The message itself.
    Request,
    /// The answer: the server has done what it was asked.
    Reply,
}

/// Which commands are cut.
pub(crate) enum Cut {
    Nothing,
    /// The next COMMIT, once.
    Commit(Lose),
    /// Each command with this chance, and a COMMIT with four times that.
    OneIn(u64, Random),
}

pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    cut: Mutex<Cut>,
    requests: AtomicUsize,
    replies: AtomicUsize,
    commits: AtomicUsize,
}

impl Wire {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            cut: Mutex::new(Cut::Nothing),
            requests: AtomicUsize::new(0),
            replies: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn({
            let shared = shared.clone();
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    // A server that is down refuses; the client then sees its connection close.
                    if let Ok(server) = TcpStream::connect(target).await {
                        tokio::spawn(relay(client, server, shared.clone()));
                    }
                }
            }
        });
        Self { address, shared, accepting: accepting.abort_handle() }
    }

    pub(crate) fn arm(&self, cut: Cut) {
        *self.shared.cut.lock().unwrap() = cut;
    }

    /// How many requests were lost, how many replies, and how many of both at a COMMIT.
    pub(crate) fn cuts(&self) -> (usize, usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        let Shared { requests, replies, commits, .. } = &*self.shared;
        (count(requests), count(replies), count(commits))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    /// Whether this message is cut, and what is lost.
    fn decide(&self, is_commit: bool) -> Option<Lose> {
        let mut cut = self.cut.lock().unwrap();
        let lose = match &mut *cut {
            Cut::Nothing => None,
            Cut::Commit(lose) => {
                let lose = is_commit.then_some(*lose);
                if lose.is_some() {
                    *cut = Cut::Nothing;
                }
                lose
            }
            Cut::OneIn(one_in, random) => {
                let one_in = if is_commit { (*one_in / 4).max(1) } else { *one_in };
                let lose = if random.chance(2) { Lose::Request } else { Lose::Reply };
                random.chance(one_in).then_some(lose)
            }
        }?;
        let counter = if lose == Lose::Request { &self.requests } else { &self.replies };
        counter.fetch_add(1, Ordering::SeqCst);
        self.commits.fetch_add(usize::from(is_commit), Ordering::SeqCst);
        Some(lose)
    }
}

async fn relay(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let muted = watch::Sender::new(false);
    let replies = replies(from_server, to_client, muted.subscribe());
    // Whichever way ends first takes the other with it.
    tokio::select! {
        () = replies => {}
        () = requests(from_client, to_server, &shared, &muted) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    muted: &watch::Sender<bool>,
) {
    while let Some(packet) = packet(&mut from).await {
        // A command begins a new count of packets; what has another number is part of the
        // handshake, or goes on with a long command.
        let is_command = packet[3] == 0;
        let is_commit = is_command && packet[4..].starts_with(b"\x03COMMIT");
        // A query or the execution of a prepared statement. Preparing one does nothing, and what
        // closes one has no answer.
        let counts = is_command && matches!(packet.get(4), Some(0x03 | 0x17));
        match counts.then(|| shared.decide(is_commit)).flatten() {
            Some(Lose::Request) => return,
            Some(Lose::Reply) => {
                muted.send_replace(true);
            }
            None => {}
        }
        if to.write_all(&packet).await.is_err() {
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

/// One whole packet with its head: three bytes of length, one of its number.
async fn packet(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut packet = vec![0; 4];
    from.read_exact(&mut packet).await.ok()?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(4 + usize::try_from(length).ok()?, 0);
    from.read_exact(&mut packet[4..]).await.ok()?;
    Some(packet)
}

//! A TCP proxy between a store and its server that loses what it is told to.
//!
//! ```
//! use idem_testkit::faults::proxy::{Fault, Proxy};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let server = TcpListener::bind("127.0.0.1:0").await?;
//! let proxy = Proxy::to(server.local_addr()?).await?;
//! proxy.arm(Fault::lose_reply());
//!
//! let mut client = TcpStream::connect(proxy.address()).await?;
//! client.write_all(b"charge").await?;
//! let (mut accepted, _) = server.accept().await?;
//! let mut request = [0; 6];
//! accepted.read_exact(&mut request).await?;
//! assert_eq!(&request, b"charge"); // The server has it,
//! accepted.write_all(b"done").await?;
//! let mut reply = Vec::new();
//! client.read_to_end(&mut reply).await?;
//! assert!(reply.is_empty()); // and the client never hears of it.
//! assert_eq!(proxy.fired(), 1);
//! # Ok::<_, std::io::Error>(()) }).unwrap();
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::relay::relay;

/// A proxy on a free port of loopback. Dropping it closes everything that goes through it.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: AbortHandle,
}

/// Which way bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// What happens at the offset of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// The rest is lost and both connections are closed: the client reads an end of file, or a
    /// reset when it was still sending.
    Close,
    /// The rest is lost and the client's connection is reset.
    Reset,
    /// The rest is lost, both ways, and nobody is told: the connection stays half open.
    Silence,
    /// The rest waits this long and then goes on.
    Delay(Duration),
}

/// One thing to go wrong, once, on whichever connection gets to its offset first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    direction: Direction,
    after_bytes: u64,
    effect: Effect,
}

impl Fault {
    /// The next bytes towards the server do not arrive there.
    pub fn lose_request() -> Self {
        Self { direction: Direction::Request, after_bytes: 0, effect: Effect::Close }
    }

    /// The server gets what is sent, and its next bytes do not arrive at the client.
    pub fn lose_reply() -> Self {
        Self { direction: Direction::Reply, after_bytes: 0, effect: Effect::Close }
    }

    /// Lets so many more bytes pass first, counted in its direction from when it is armed.
    #[must_use]
    pub fn after(mut self, bytes: u64) -> Self {
        self.after_bytes = bytes;
        self
    }

    /// What happens there; [`Effect::Close`] unless set.
    #[must_use]
    pub fn with(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}

impl Proxy {
    /// Listens on loopback and forwards each connection to `target`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            armed: Mutex::new(None),
            fired: watch::Sender::new(0),
            cut: watch::Sender::new(false),
            severed: watch::Sender::new(0),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, target, shared.clone())).abort_handle();
        Ok(Self { shared, address, accepting })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Arms `fault`; one that was armed and has not fired is forgotten.
    pub fn arm(&self, fault: Fault) {
        *self.shared.armed() = Some(fault);
    }

    /// Forgets a fault that has not fired.
    pub fn disarm(&self) {
        *self.shared.armed() = None;
    }

    /// How many faults have fired.
    pub fn fired(&self) -> usize {
        *self.shared.fired.borrow()
    }

    /// Waits until at least `count` faults have fired.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for_fired(&self, count: usize) {
        let mut fired = self.shared.fired.subscribe();
        // The sender lives as long as this proxy.
        let _ = fired.wait_for(|seen| *seen >= count).await;
    }

    /// How many connections have been accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Resets every connection that is open now, and says how many those were. New ones go through.
    pub fn sever(&self) -> usize {
        let open = self.shared.open.load(Ordering::SeqCst);
        self.shared.severed.send_modify(|times| *times += 1);
        open
    }

    /// Resets every connection, and every new one at once, until [`heal`](Self::heal): the
    /// server cannot be reached.
    pub fn cut(&self) {
        self.shared.cut.send_replace(true);
    }

    /// Lets connections through again.
    pub fn heal(&self) {
        self.shared.cut.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The task owns the connections' tasks, which end with it.
        self.accepting.abort();
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    armed: Mutex<Option<Fault>>,
    fired: watch::Sender<usize>,
    pub(super) cut: watch::Sender<bool>,
    pub(super) severed: watch::Sender<usize>,
    pub(super) open: AtomicUsize,
    accepted: AtomicUsize,
}

impl Shared {
    fn armed(&self) -> MutexGuard<'_, Option<Fault>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of `length` bytes pass, and what then happens, if anything.
    pub(super) fn verdict(&self, direction: Direction, length: usize) -> (usize, Option<Effect>) {
        let mut armed = self.armed();
        let Some(fault) = armed.as_mut().filter(|fault| fault.direction == direction) else {
            return (length, None);
        };
        let length_wide = length as u64;
        if fault.after_bytes >= length_wide {
            fault.after_bytes -= length_wide;
            return (length, None);
        }
        let passing = usize::try_from(fault.after_bytes).expect("it is below a usize");
        let effect = fault.effect;
        *armed = None;
        self.fired.send_modify(|fired| *fired += 1);
        (passing, Some(effect))
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // The client went away before it was accepted, or there are no more descriptors.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        while connections.try_join_next().is_some() {}
        let shared = shared.clone();
        connections.spawn(async move {
            let cut = *shared.cut.borrow();
            if cut {
                let _ = client.set_zero_linger();
                return;
            }
            if let Ok(server) = TcpStream::connect(target).await {
                relay(client, server, &shared).await;
            }
        });
    }
}

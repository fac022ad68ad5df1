//! The workshop behind a real connection, so that the network can do what it does.
//!
//! Only numbers travel: a request names a job in a table that both ends share, and a reply names
//! the answer in it. What is lost is lost for real all the same.

use std::any::Any;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Observed, Owner, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex as AsyncMutex;

use super::workshop::Workshop;
use crate::owned::OwnedClaim;

/// How long a client waits for its turn, and then for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A request and a reply have as many bytes, its number being the last eight.
const MESSAGE: usize = 48;

/// How a client treats its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    Right,
    /// A lost reply is told as NotApplied.
    LostReplyIsNotApplied,
    /// What was sent is told as done, whether it is heard of or not.
    SentIsDone,
    /// A lost claim is made again, by another owner.
    RetriesAsAnother,
    /// A silent server is waited for.
    WaitsForEver,
    /// A connection that broke is never opened again.
    NeverReconnects,
    /// An error quotes the key.
    QuotesTheKey,
    /// A connection whose call was dropped is used again, with the answer still on it.
    ReusesDroppedConnections,
}

type Answer = Box<dyn Any + Send>;
type Job = Box<dyn FnOnce(Workshop) -> BoxFuture<'static, Answer> + Send>;

/// What the numbers stand for.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    jobs: HashMap<u64, Job>,
    answers: HashMap<u64, Answer>,
}

impl Table {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's end.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    table: Table,
    numbers: Arc<AtomicU64>,
    serving: tokio::task::AbortHandle,
}

impl Server {
    pub(super) async fn start(store: Workshop) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let table = Table::default();
        let served = table.clone();
        let serving = tokio::spawn(async move {
            loop {
                let Ok((connection, _)) = listener.accept().await else { continue };
                tokio::spawn(serve(connection, store.clone(), served.clone()));
            }
        });
        Ok(Self { address, table, numbers: Arc::default(), serving: serving.abort_handle() })
    }

    /// A client that connects to `address`, this server's or a proxy's.
    pub(super) fn client(&self, address: SocketAddr, manners: Manners) -> Client {
        let (table, numbers) = (self.table.clone(), self.numbers.clone());
        Client { address, manners, table, numbers, connection: AsyncMutex::new(Slot::Closed) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut connection: TcpStream, store: Workshop, table: Table) {
    let mut message = [0; MESSAGE];
    while connection.read_exact(&mut message).await.is_ok() {
        let number = number(&message);
        let job = table.entries().jobs.remove(&number);
        if let Some(job) = job {
            let answer = job(store.clone()).await;
            table.entries().answers.insert(number, answer);
        }
        if connection.write_all(&message).await.is_err() {
            return;
        }
    }
}

fn number(message: &[u8; MESSAGE]) -> u64 {
    let (_, number) = message.split_last_chunk::<8>().expect("a message has more");
    u64::from_be_bytes(*number)
}

enum Slot {
    Closed,
    Open(TcpStream),
    /// It broke, and this client does not get over it.
    Broken,
}

/// The client's end: a store with one connection, whose calls take turns.
pub(super) struct Client {
    address: SocketAddr,
    manners: Manners,
    table: Table,
    numbers: Arc<AtomicU64>,
    connection: AsyncMutex<Slot>,
}

/// Where a call broke off.
enum Broke {
    BeforeSending,
    AfterSending,
}

impl Client {
    async fn call<T: Send + 'static>(
        &self,
        verb: Verb,
        key: Option<&Key>,
        run: impl FnOnce(Workshop) -> BoxFuture<'static, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst) + 1;
        let job: Job =
            Box::new(move |store| Box::pin(async move { Box::new(run(store).await) as Answer }));
        self.table.entries().jobs.insert(number, job);
        let broke = match self.exchange(number).await {
            Ok(answered) => {
                let answer = self.table.entries().answers.remove(&answered);
                match answer.and_then(|answer| answer.downcast().ok()) {
                    Some(answer) => return *answer,
                    None => Broke::AfterSending,
                }
            }
            Err(broke) => broke,
        };
        Err(self.error(verb, key, &broke))
    }

    fn error(&self, verb: Verb, key: Option<&Key>, broke: &Broke) -> StoreError {
        let kind = match broke {
            Broke::BeforeSending => ErrorKind::NotApplied,
            Broke::AfterSending if self.manners == Manners::LostReplyIsNotApplied => {
                ErrorKind::NotApplied
            }
            Broke::AfterSending => ErrorKind::OutcomeUnknown,
        };
        let mut detail = "the connection broke".to_owned();
        if let (Manners::QuotesTheKey, Some(key)) = (self.manners, key) {
            detail = format!("no answer about {}", String::from_utf8_lossy(key.as_bytes()));
        }
        StoreError::new(kind, verb, detail)
    }

    /// One request and its reply, in turn: the number of what was answered.
    async fn exchange(&self, number: u64) -> Result<u64, Broke> {
        let waiting = tokio::time::timeout(PATIENCE, self.connection.lock());
        let mut slot = waiting.await.map_err(|_| Broke::BeforeSending)?;
        if matches!(*slot, Slot::Broken) {
            return Err(Broke::BeforeSending);
        }
        if matches!(*slot, Slot::Closed) {
            let opened = TcpStream::connect(self.address).await;
            *slot = Slot::Open(opened.map_err(|_| Broke::BeforeSending)?);
        }
        // Taken out, so that a call that is dropped half-way closes the connection it is on.
        let keeps = self.manners == Manners::ReusesDroppedConnections;
        let mut taken =
            if keeps { None } else { Some(std::mem::replace(&mut *slot, Slot::Closed)) };
        let connection = match taken.as_mut().unwrap_or(&mut *slot) {
            Slot::Open(connection) => connection,
            Slot::Closed | Slot::Broken => return Err(Broke::BeforeSending),
        };
        let exchanged = if self.manners == Manners::WaitsForEver {
            self.send_and_receive(connection, number).await
        } else {
            let exchange = self.send_and_receive(connection, number);
            tokio::time::timeout(PATIENCE, exchange).await.unwrap_or(Err(Broke::AfterSending))
        };
        match (&exchanged, taken) {
            (Ok(_), Some(open)) => *slot = open,
            (Ok(_), None) => {}
            (Err(_), _) if self.manners == Manners::NeverReconnects => *slot = Slot::Broken,
            (Err(_), _) => *slot = Slot::Closed,
        }
        exchanged
    }

    async fn send_and_receive(&self, connection: &mut TcpStream, of: u64) -> Result<u64, Broke> {
        let mut message = [0; MESSAGE];
        message[MESSAGE - 8..].copy_from_slice(&of.to_be_bytes());
        // A part of it may have arrived, and the whole of it.
        connection.write_all(&message).await.map_err(|_| Broke::AfterSending)?;
        // However soon the answer is there, a caller can go away before it is read.
        tokio::task::yield_now().await;
        let trusts = self.manners == Manners::ReusesDroppedConnections;
        connection.read_exact(&mut message).await.map_err(|_| Broke::AfterSending)?;
        let answered = number(&message);
        if answered == of || trusts { Ok(answered) } else { Err(Broke::AfterSending) }
    }

    fn is_done(&self, error: &StoreError) -> bool {
        self.manners == Manners::SentIsDone && error.kind() == ErrorKind::OutcomeUnknown
    }
}

/// Passes a verb on with what it needs, owned.
macro_rules! send {
    ($client:expr, $verb:ident, $key:expr, |$store:ident| $call:expr) => {
        $client.call(Verb::$verb, $key, move |$store| Box::pin(async move { $call })).await
    };
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Client {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let owned = OwnedClaim::of(claim);
        let key = Some(claim.key);
        let sent = owned.clone();
        let claimed = send!(self, Claim, key, |store| store.claim(&sent.borrow()).await);
        match claimed {
            Err(error)
                if self.manners == Manners::RetriesAsAnother
                    && error.kind() == ErrorKind::OutcomeUnknown =>
            {
                let sent = OwnedClaim { owner: Owner::random(), ..owned };
                send!(self, Claim, key, |store| store.claim(&sent.borrow()).await)
            }
            other => other,
        }
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let of = fence.clone();
        send!(self, Renew, Some(&fence.key), |store| store.renew(&of, lease).await)
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let (of, point) = (fence.clone(), recovery.clone());
        let key = Some(&fence.key);
        send!(self, Checkpoint, key, |store| store.checkpoint(&of, &point, lease).await)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let (of, sent) = (fence.clone(), reply.clone());
        let key = Some(&fence.key);
        let completed = send!(self, Complete, key, |store| store.complete(&of, &sent).await);
        completed.or_else(|error| if self.is_done(&error) { Ok(()) } else { Err(error) })
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let of = fence.clone();
        send!(self, Release, Some(&fence.key), |store| store.release(&of).await)
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let (of, named) = (scope.clone(), key.clone());
        send!(self, Get, Some(key), |store| store.get(&of, &named).await)
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.cloned();
        send!(self, Lapsed, None, |store| store.lapsed(after.as_ref(), limit).await)
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        send!(self, Sweep, None, |store| store.sweep(limit).await)
    }
}

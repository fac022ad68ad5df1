//! A relay on loopback whose connections a test cuts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Relays to one address. Ends with its last clone.
#[derive(Clone)]
pub(crate) struct Cutter {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    running: Mutex<Vec<AbortHandle>>,
    open: AtomicBool,
    carried: AtomicUsize,
    acceptor: Mutex<Option<AbortHandle>>,
}

impl Cutter {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            running: Mutex::default(),
            open: AtomicBool::new(true),
            carried: AtomicUsize::new(0),
            acceptor: Mutex::default(),
        });
        let weak = Arc::downgrade(&shared);
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((mut near, _)) = listener.accept().await else { return };
                let Some(shared) = weak.upgrade() else { return };
                if !shared.open.load(Ordering::SeqCst) {
                    continue;
                }
                let relay = tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
                shared.carried.fetch_add(1, Ordering::SeqCst);
                let mut running = shared.running.lock().unwrap();
                running.retain(|relay| !relay.is_finished());
                running.push(relay.abort_handle());
            }
        });
        *shared.acceptor.lock().unwrap() = Some(accepting.abort_handle());
        Self { address, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Cuts every connection that runs, and says how many those were.
    pub(crate) fn cut(&self) -> usize {
        let relays = std::mem::take(&mut *self.shared.running.lock().unwrap());
        let running = relays.iter().filter(|relay| !relay.is_finished()).count();
        relays.iter().for_each(AbortHandle::abort);
        running
    }

    /// Cuts every connection, and lets no other through.
    pub(crate) fn close(&self) {
        self.shared.open.store(false, Ordering::SeqCst);
        self.cut();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for relay in
            self.running.get_mut().unwrap().iter().chain(self.acceptor.get_mut().unwrap().iter())
        {
            relay.abort();
        }
    }
}

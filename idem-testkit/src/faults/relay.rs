//! One connection through the proxy.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::proxy::{Direction, Effect, Shared};

/// How one direction, and with it the connection, came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its sender had no more to say; the other direction goes on.
    Finished,
    Close,
    Reset,
}

/// Forwards both ways until the end, which may be one that was asked for.
pub(super) async fn relay(mut client: TcpStream, mut server: TcpStream, shared: &Shared) {
    // Small packets are sent as they come: an offset counts what was really sent.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let silent = AtomicBool::new(false);
    let mut severed = shared.severed.subscribe();
    let _open = Open::count(&shared.open);
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut request = pin!(pump(Direction::Request, from_client, to_server, shared, &silent));
        let mut reply = pin!(pump(Direction::Reply, from_server, to_client, shared, &silent));
        let mut cut = shared.cut.subscribe();
        let (mut request_open, mut reply_open) = (true, true);
        loop {
            let (end, open) = tokio::select! {
                // Nothing passes any more once a cut was asked for.
                biased;
                _ = cut.wait_for(|cut| *cut) => break End::Reset,
                _ = severed.changed() => break End::Reset,
                end = &mut request, if request_open => (end, &mut request_open),
                end = &mut reply, if reply_open => (end, &mut reply_open),
            };
            *open = false;
            if end != End::Finished || !(request_open || reply_open) {
                break end;
            }
        }
    };
    if end == End::Reset {
        let _ = client.set_zero_linger();
    }
}

/// Counts one connection for as long as it is open.
struct Open<'c>(&'c AtomicUsize);

impl<'c> Open<'c> {
    fn count(open: &'c AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn pump(
    direction: Direction,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &Shared,
    silent: &AtomicBool,
) -> End {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) => {
                let _ = to.shutdown().await;
                return End::Finished;
            }
            Ok(read) => read,
            Err(error) => return end_of(&error),
        };
        if silent.load(Ordering::SeqCst) {
            continue;
        }
        let (passing, effect) = shared.verdict(direction, read);
        let mut rest = &buffer[passing..read];
        if let Err(error) = to.write_all(&buffer[..passing]).await {
            return end_of(&error);
        }
        match effect {
            None => {}
            Some(Effect::Close) => return End::Close,
            Some(Effect::Reset) => return End::Reset,
            Some(Effect::Silence) => {
                silent.store(true, Ordering::SeqCst);
                rest = &[];
            }
            Some(Effect::Delay(delay)) => tokio::time::sleep(delay).await,
        }
        if let Err(error) = to.write_all(rest).await {
            return end_of(&error);
        }
    }
}

fn end_of(error: &io::Error) -> End {
    match error.kind() {
        io::ErrorKind::ConnectionReset => End::Reset,
        _ => End::Close,
    }
}

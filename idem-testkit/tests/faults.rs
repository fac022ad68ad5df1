//! The proxies lose what they are told to, and nothing else.

use std::time::Duration;

use idem_testkit::faults::messages::{Cut, Framing, Lose, MessageProxy, Sort};
use idem_testkit::faults::proxy::Proxy;
use idem_testkit::random::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A digit, and as many letters: `H` says hello and is never cut, `C` commits.
struct Letters;

impl Framing for Letters {
    fn head_bytes(&self) -> usize {
        1
    }

    fn body_bytes(&self, head: &[u8]) -> Option<usize> {
        Some(usize::from(head[0].checked_sub(b'0')?))
    }

    fn sort(&mut self, message: &[u8]) -> Sort {
        match message[1] {
            b'H' => Sort::Passing,
            b'C' => Sort::Commit,
            _ => Sort::Request,
        }
    }
}

/// Answers each byte with itself, and keeps what it got of each connection.
async fn echo(connections: usize) -> (std::net::SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut all = Vec::new();
        for _ in 0..connections {
            let (mut client, _) = listener.accept().await.unwrap();
            let (mut got, mut byte) = (Vec::new(), [0]);
            while client.read_exact(&mut byte).await.is_ok() {
                got.push(byte[0]);
                let _ = client.write_all(&byte).await;
            }
            all.push(got);
        }
        all
    });
    (address, serving)
}

/// Sends a message and reads its answer; `false` when the connection ends instead.
async fn ask(client: &mut TcpStream, message: &str) -> bool {
    let mut answer = vec![0; message.len()];
    client.write_all(message.as_bytes()).await.is_ok()
        && client.read_exact(&mut answer).await.is_ok()
}

#[tokio::test]
async fn a_commit_is_cut_once_and_what_is_not_armed_passes() {
    for (lose, arrived) in [(Lose::Request, "2Ha2RR"), (Lose::Reply, "2Ha2RR2CC")] {
        let (server, serving) = echo(2).await;
        let proxy = MessageProxy::to(server, || Letters).await.unwrap();
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut client, "2Ha").await);
        proxy.arm(Cut::Commit(lose));
        assert!(ask(&mut client, "2RR").await, "only a commit is cut");
        assert!(!ask(&mut client, "2CC").await, "{lose:?}");
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut client, "2CC").await, "it is cut once");
        let cuts = proxy.cuts();
        let requests = usize::from(lose == Lose::Request);
        assert_eq!((cuts.requests, cuts.replies, cuts.commits), (requests, 1 - requests, 1));
        drop(proxy);
        let got: Vec<_> =
            serving.await.unwrap().into_iter().map(|got| String::from_utf8(got).unwrap()).collect();
        assert_eq!(got, [arrived, "2CC"]);
    }
}

#[tokio::test]
async fn at_random_both_sorts_are_cut_and_a_handshake_never_is() {
    let (server, _serving) = echo(usize::MAX).await;
    let proxy = MessageProxy::to(server, || Letters).await.unwrap();
    proxy.arm(Cut::OneIn(4, Random::from_seed(1)));
    while proxy.cuts().requests < 5 || proxy.cuts().replies < 5 {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut client, "2Ha").await);
        let before = proxy.cuts();
        while ask(&mut client, "1R").await {}
        assert_eq!(proxy.cuts().total(), before.total() + 1, "each end is one cut");
    }
    assert_eq!(proxy.cuts().commits, 0);
    // One in four, four times as often.
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(!ask(&mut client, "1C").await);
    assert_eq!(proxy.cuts().commits, 1);
}

#[tokio::test]
async fn what_is_no_message_closes_the_connection() {
    let (server, _serving) = echo(1).await;
    let proxy = MessageProxy::to(server, || Letters).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(!ask(&mut client, "!").await);
}

#[tokio::test]
async fn severed_connections_end_and_new_ones_go_through() {
    let (server, _serving) = echo(usize::MAX).await;
    let proxy = Proxy::to(server).await.unwrap();
    assert_eq!(proxy.sever(), 0);
    for _ in 0..3 {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut client, "hello").await);
        assert_eq!(proxy.sever(), 1);
        assert!(!ask(&mut client, "anybody?").await);
        let ended = tokio::time::timeout(Duration::from_secs(30), async {
            while proxy.sever() > 0 {
                tokio::task::yield_now().await;
            }
        });
        ended.await.expect("it is counted no more");
    }
}

//! The client hangs up, at every stage (cases 39, 41; R12). Each runs behind axum and behind a
//! plain tower service, over sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::gate::PATIENCE;
use crate::support::server::{KINDS, Server, Work, request};
use crate::support::{Answer, Gate, World};

struct Scene {
    world: World,
    gate: Gate,
    server: Server,
}

/// One scene behind each kind of service.
async fn scenes(reply_bytes: usize, max_reply_bytes: usize) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for kind in KINDS {
        let (world, gate) = (World::new(), Gate::new());
        let layer = world.layer_with(|operation| operation.max_reply_bytes(max_reply_bytes));
        let work = Work { gate: gate.clone(), effects: world.effects.clone(), reply_bytes };
        scenes.push(Scene { server: Server::start(kind, layer, work).await, world, gate });
    }
    scenes
}

impl Scene {
    /// Sends the first bytes of a request, and hangs up.
    async fn send_and_hang_up(&mut self, bytes: &[u8]) {
        let mut stream = self.server.connect().await;
        stream.write_all(bytes).await.unwrap();
        drop(stream);
        self.server.connection_ended().await;
    }

    /// Retries until the first one has finished.
    async fn retry_until_finished(&mut self, body: &str) -> Answer {
        let retrying = async {
            loop {
                let answer = self.server.exchange(&request("k", body)).await;
                if answer.status != 409 {
                    return answer;
                }
                assert_eq!(answer.problem(), (409, "key-in-use".into()));
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, retrying).await.expect("the first one finishes")
    }

    async fn runs_once_now(&mut self, body: &str) {
        assert_eq!((self.world.effects.count(), self.world.records().await), (0, 0));
        self.gate.let_one_pass();
        let answer = self.server.exchange(&request("k", body)).await;
        assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
        let again = self.server.exchange(&request("k", body)).await;
        assert!(again.is_replay());
        assert_eq!(again.without_marks(), answer.without_marks());
        assert_eq!((self.world.effects.count(), self.world.records().await), (1, 1));
    }
}

#[tokio::test]
async fn during_the_headers_nothing_is_claimed_and_the_retry_runs() {
    for mut scene in scenes(0, 1_000).await {
        let whole = request("k", "100 eur");
        let head = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        for cut in [1, 20, head / 2, head, head + 3] {
            scene.send_and_hang_up(&whole[..cut]).await;
        }
        scene.runs_once_now("100 eur").await;
    }
}

#[tokio::test]
async fn during_the_body_nothing_is_claimed_and_the_retry_runs() {
    for mut scene in scenes(0, 1_000).await {
        let whole = request("k", "100 eur");
        let head = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        for cut in [head, head + 1, whole.len() - 1] {
            scene.send_and_hang_up(&whole[..cut]).await;
        }
        scene.runs_once_now("100 eur").await;
    }
}

#[tokio::test]
async fn during_a_chunked_body_nothing_is_claimed_and_the_retry_runs() {
    for mut scene in scenes(0, 1_000).await {
        let head = String::from_utf8(request("k", "")).unwrap();
        let head = head.replace("content-length: 0", "transfer-encoding: chunked");
        // The last one lacks only the chunk that says that the body is whole.
        for body in ["", "4\r\n10", "4\r\n100 \r\n", "4\r\n100 \r\n3\r\neur\r\n"] {
            scene.send_and_hang_up(format!("{head}{body}").as_bytes()).await;
        }
        scene.runs_once_now("100 eur").await;
    }
}

#[tokio::test]
async fn while_the_handler_runs_it_goes_on_and_the_retry_replays() {
    for mut scene in scenes(0, 1_000).await {
        let mut stream = scene.server.connect().await;
        stream.write_all(&request("k", "100 eur")).await.unwrap();
        scene.gate.arrival().await;
        drop(stream);
        // From here on nobody waits for the answer.
        scene.server.connection_ended().await;
        assert_eq!((scene.world.effects.count(), scene.world.stats().await.live), (0, 1));
        let meanwhile = scene.server.exchange(&request("k", "100 eur")).await;
        assert_eq!(meanwhile.problem(), (409, "key-in-use".into()));

        scene.gate.let_one_pass();
        let answer = scene.retry_until_finished("100 eur").await;
        assert!(answer.is_replay());
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (201, &b"1 100 eur"[..]));
        assert_eq!(scene.world.effects.count(), 1);
    }
}

#[tokio::test]
async fn during_the_reply_it_stands_and_the_retry_replays_all_of_it() {
    // More than the sockets' buffers hold, so that the server is still sending.
    const REPLY: usize = 24 * 1024 * 1024;
    for mut scene in scenes(REPLY, 2 * REPLY).await {
        let mut stream = scene.server.connect().await;
        stream.write_all(&request("k", "100 eur")).await.unwrap();
        scene.gate.let_one_pass();
        let mut first = [0; 512];
        stream.read_exact(&mut first).await.unwrap();
        drop(stream);
        scene.server.connection_ended().await;

        let answer = scene.server.exchange(&request("k", "100 eur")).await;
        assert!(answer.is_replay());
        assert_eq!((answer.status.as_u16(), answer.body.len()), (201, REPLY));
        assert_eq!(scene.world.effects.count(), 1);
    }
}

#[tokio::test]
async fn during_a_reply_that_is_too_large_to_keep_the_retry_is_told_and_nothing_runs_again() {
    const REPLY: usize = 24 * 1024 * 1024;
    for mut scene in scenes(REPLY, 1_024).await {
        let mut stream = scene.server.connect().await;
        stream.write_all(&request("k", "100 eur")).await.unwrap();
        scene.gate.let_one_pass();
        let mut first = [0; 512];
        stream.read_exact(&mut first).await.unwrap();
        drop(stream);
        scene.server.connection_ended().await;

        let answer = scene.server.exchange(&request("k", "100 eur")).await;
        assert_eq!(answer.problem(), (410, "reply-not-kept".into()));
        assert_eq!(answer.json()["original_status"], 201);
        assert_eq!(scene.world.effects.count(), 1);
    }
}

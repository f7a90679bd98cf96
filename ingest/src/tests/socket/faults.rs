//! What happens to connections: they are refreshed, refused, turned off, broken or silent.

use std::collections::BTreeSet;

use super::*;

/// Lets time pass at once. The other side of a connection takes no part in it.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Stores an event that the connection receives.
async fn deliver(side: &mut SlackSide, number: u32) {
    let id = format!("e{number}");
    side.event(&id, &message(number), 0).await;
    assert_eq!(side.received().await, ack(&id));
}

impl SocketFixture {
    async fn with_connections(connections: u8, tickets: usize) -> Self {
        let IngestFixture { queue, ingest, .. } = IngestFixture::new(Behaviour::Keep);
        Self::start_with(queue, Ingest { secrets: None, ..ingest }, connections, tickets).await
    }

    fn opened(&self) -> usize {
        self.slack.call_count("apps.connections.open")
    }
}

#[tokio::test]
async fn two_connections_share_a_run_that_lasts_while_one_of_them_is_ready() {
    let mut fixture = SocketFixture::with_connections(2, 3).await;
    let mut first = fixture.socket.ready().await;
    deliver(&mut first, 1).await;
    let mut second = fixture.socket.ready().await;
    deliver(&mut second, 2).await;
    deliver(&mut first, 3).await;
    deliver(&mut second, 4).await;
    drop(first);
    deliver(&mut second, 5).await;
    assert!(fixture.request("GET /readyz").await.starts_with("HTTP/1.1 200 "));
    pass(1).await;
    let mut third = fixture.socket.ready().await;
    ignored(&mut third, "ready").await;
    assert_eq!(third.received().await, ack("ready"));
    deliver(&mut second, 6).await;
    deliver(&mut third, 7).await;
    let mut runs = fixture.runs();
    assert_eq!(runs.remove(1), None, "it is not known yet whether the first connection is alive");
    assert!(runs.len() == 6 && runs.iter().all(|run| run.is_some() && *run == runs[0]), "{runs:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_without_a_further_frame_may_have_died_before_another_was_opened() {
    let mut fixture = SocketFixture::with_connections(2, 3).await;
    let mut first = fixture.socket.ready().await;
    deliver(&mut first, 1).await;
    let mut second = fixture.socket.ready().await;
    deliver(&mut second, 2).await;
    drop(first);
    pass(1).await;
    // The process opens it after it has noticed that the first one broke.
    let _third = fixture.socket.next().await;
    deliver(&mut second, 3).await;
    let runs = fixture.runs();
    assert!(runs[1].is_none() && runs[2].is_some() && runs[2] != runs[0], "{runs:?}");
}

#[tokio::test]
async fn a_connection_that_answers_pings_stays_and_a_silent_one_is_replaced() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 2).await;
    let mut side = fixture.socket.ready().await;
    deliver(&mut side, 1).await;
    for _ in 0..4 {
        pass(10).await;
        side.answer_ping().await;
        // The process reads the pong before it has answered this.
        assert!(fixture.request("GET /healthz").await.starts_with("HTTP/1.1 200 "));
    }
    deliver(&mut side, 2).await;
    assert_eq!(fixture.opened(), 1);
    pass(31).await;
    assert_eq!(side.received().await, FromClient::Broken);
    let answer = fixture.request("GET /readyz").await;
    assert!(
        answer.contains("no connection to Slack: the connection to Slack was silent for 30 s"),
        "{answer}"
    );
    pass(1).await;
    let mut side = fixture.socket.ready().await;
    deliver(&mut side, 3).await;
    let runs = fixture.runs();
    assert!(runs[0] == runs[1] && runs[2].is_some() && runs[2] != runs[1], "{runs:?}");
}

#[tokio::test]
async fn a_connection_that_is_dead_when_it_is_replaced_ends_its_run() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 2).await;
    let mut old = fixture.socket.ready().await;
    deliver(&mut old, 1).await;
    old.disconnect("warning").await;
    let mut new = fixture.socket.ready().await;
    // The old one answers nothing from now on.
    for _ in 0..4 {
        pass(10).await;
        new.answer_ping().await;
        assert!(fixture.request("GET /healthz").await.starts_with("HTTP/1.1 200 "));
    }
    deliver(&mut new, 2).await;
    let runs = fixture.runs();
    assert!(runs.len() == 2 && runs.iter().all(Option::is_some) && runs[0] != runs[1], "{runs:?}");
}

#[tokio::test]
async fn too_many_connections_are_followed_by_growing_waits() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 4).await;
    let mut side = fixture.socket.ready().await;
    deliver(&mut side, 1).await;
    side.disconnect("too_many_websockets").await;
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
    for (refused, jitter_s) in [(1, 1), (2, 2), (3, 4)] {
        let answer = fixture.request("GET /readyz").await;
        assert!(answer.contains("too many connections already"), "{answer}");
        pass(20).await;
        assert!(fixture.request("GET /readyz").await.starts_with("HTTP/1.1 503 "));
        assert_eq!(fixture.opened(), refused);
        pass(10 + jitter_s).await;
        // Instead of a hello.
        let mut side = fixture.socket.next().await;
        side.disconnect("too_many_websockets").await;
        assert_eq!(side.received().await, FromClient::Broken);
    }
}

#[tokio::test]
async fn a_connection_is_opened_again_after_socket_mode_was_turned_off() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 2).await;
    let mut side = fixture.socket.ready().await;
    deliver(&mut side, 1).await;
    side.disconnect("link_disabled").await;
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
    pass(40).await;
    assert!(fixture.request("GET /readyz").await.starts_with("HTTP/1.1 503 "));
    assert_eq!(fixture.opened(), 1, "a person has to act");
    pass(20).await;
    let mut side = fixture.socket.ready().await;
    deliver(&mut side, 2).await;
    assert!(fixture.request("GET /readyz").await.starts_with("HTTP/1.1 200 "));
    let runs = fixture.runs();
    assert!(runs[0].is_some() && runs[1].is_some() && runs[0] != runs[1], "{runs:?}");
}

#[tokio::test]
async fn a_binary_frame_is_left_out_and_the_connection_goes_on() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 1).await;
    let mut side = fixture.socket.ready().await;
    side.send_binary(b"{\"type\":\"disconnect\",\"reason\":\"link_disabled\"}").await;
    side.send_binary(b"").await;
    deliver(&mut side, 1).await;
    assert_eq!((fixture.opened(), fixture.queue.kept().len()), (1, 1));
}

#[tokio::test]
async fn an_event_that_arrives_both_ways_is_recognised_by_its_id() {
    let IngestFixture { queue, ingest, .. } = IngestFixture::new(Behaviour::Keep);
    let mut fixture = SocketFixture::start_with(queue, ingest, 1, 1).await;
    let mut side = fixture.socket.ready().await;
    deliver(&mut side, 1).await;
    assert!(fixture.post(&message(1)).await.starts_with("HTTP/1.1 200 "));
    assert!(fixture.request("POST /slack/events").await.starts_with("HTTP/1.1 401 "));
    let kept = fixture.queue.kept();
    let identity = |index: usize| (kept[index].queue, &kept[index].group, &kept[index].dedup);
    assert_eq!((kept.len(), identity(0)), (2, identity(1)));
    assert!(kept.iter().all(|sent| sent.body.contains(&super::super::kept(&message(1)))), "{kept:?}");

    side.disconnect("link_disabled").await;
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
    assert!(fixture.request("GET /readyz").await.starts_with("HTTP/1.1 200 "), "requests still arrive");
    assert!(fixture.post(&message(2)).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn two_hundred_refreshes_lose_no_message() {
    const REFRESHES: u32 = 200;
    const MESSAGES: u32 = 10;
    let mut fixture = SocketFixture::start(Behaviour::Keep, 1 + REFRESHES as usize).await;
    let mut old = fixture.socket.ready().await;
    ignored(&mut old, "first").await;
    assert_eq!(old.received().await, ack("first"));
    for refresh in 0..REFRESHES {
        // Otherwise the refresh would count as a failure, and be followed by a wait.
        pass(10).await;
        let numbers = refresh * MESSAGES..(refresh + 1) * MESSAGES;
        for number in numbers.clone() {
            if number % MESSAGES == MESSAGES / 2 {
                old.disconnect("refresh_requested").await;
            }
            old.event(&format!("e{number}"), &message(number), 0).await;
        }
        let mut new = fixture.socket.ready().await;
        let mut missing: BTreeSet<String> = numbers.map(|number| format!("e{number}")).collect();
        loop {
            match old.received().await {
                FromClient::Ack(id) => assert!(missing.remove(&id), "{id}"),
                end @ (FromClient::Close(_) | FromClient::Broken) => {
                    assert_eq!(end, FromClient::Close(Some(1000)));
                    break;
                }
            }
        }
        // What the process had not read when it closed the connection comes again.
        for id in missing {
            let number = id[1..].parse().unwrap();
            deliver(&mut new, number).await;
        }
        old = new;
    }
    let kept = fixture.queue.kept();
    let events: BTreeSet<_> = kept.iter().map(|sent| &sent.dedup).collect();
    assert_eq!((events.len(), fixture.opened()), (2_000, 201));
    let runs = fixture.runs();
    assert!(runs.iter().all(|run| run.is_some() && *run == runs[0]), "no gap");
}

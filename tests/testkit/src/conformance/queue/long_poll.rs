//! A waiting receive is woken, and a dropped receive loses no message.

use std::time::Duration;

use futures_util::FutureExt;
use ports::queue::{Delivery, QueueName};
use tokio::time::{Instant, timeout};

use super::case::{EVENTS, LONG, QueueCase, SOON, VISIBILITY, bodies, message};

/// Starts a long receive, then runs `meanwhile`. The receive must return soon after that.
async fn receive_while(
    case: &QueueCase,
    queue: QueueName,
    meanwhile: impl Future<Output = ()>,
) -> Vec<Delivery> {
    let meanwhile = async {
        meanwhile.await;
        Instant::now()
    };
    // The receive is polled first, so it is under way before anything else happens.
    let (received, happened) = tokio::join!(biased; case.receive_waiting(queue, 10, LONG), meanwhile);
    assert!(happened.elapsed() < SOON, "woken only after {:?}", happened.elapsed());
    received
}

pub(super) async fn a_send_wakes_a_waiting_receive(case: QueueCase) {
    for round in ["1", "2", "3"] {
        let received = receive_while(&case, EVENTS, case.send(EVENTS, round, round)).await;
        assert_eq!(bodies(&received), [round]);
    }
}

pub(super) async fn an_ack_wakes_a_receive_that_waits_for_the_tail(case: QueueCase) {
    case.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    let head = case.receive(EVENTS, 1).await;
    let received = receive_while(&case, EVENTS, case.finish(EVENTS, &head[0])).await;
    assert_eq!(bodies(&received), ["2"]);
}

pub(super) async fn a_returned_message_wakes_a_waiting_receive(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let first = case.receive(EVENTS, 1).await;
    let received =
        receive_while(&case, EVENTS, case.return_delivery(EVENTS, &first[0], Duration::ZERO)).await;
    assert_eq!(bodies(&received), ["1"]);
}

pub(super) async fn a_message_becoming_visible_ends_the_wait(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    case.expect(EVENTS, &["1"]).await;
    let received = receive_while(&case, EVENTS, case.advance(VISIBILITY)).await;
    assert_eq!(bodies(&received), ["1"]);
}

pub(super) async fn a_delayed_message_ends_the_wait(case: QueueCase) {
    case.send(QueueName::Stats, "g", "1").await;
    let received = receive_while(&case, QueueName::Stats, case.advance(QueueName::Stats.spec().delay)).await;
    assert_eq!(bodies(&received), ["1"]);
}

pub(super) async fn a_wait_without_messages_ends_in_time(case: QueueCase) {
    let wait = Duration::from_millis(200);
    // Invisible and delayed messages, and those of other queues, do not end the wait.
    case.send_all(vec![message(EVENTS, "g", "1"), message(QueueName::Stats, "g", "2")]).await;
    case.expect(EVENTS, &["1"]).await;
    for queue in [EVENTS, QueueName::Stats] {
        let began = Instant::now();
        assert!(case.receive_waiting(queue, 10, wait).await.is_empty());
        assert!(began.elapsed() >= wait && began.elapsed() < SOON, "waited {:?}", began.elapsed());
    }
}

pub(super) async fn two_waiting_receives_do_not_share_a_message(case: QueueCase) {
    let wait = Duration::from_millis(500);
    for round in ["1", "2", "3"] {
        let (first, second, ()) = tokio::join!(
            biased;
            case.receive_waiting(EVENTS, 10, wait),
            case.receive_waiting(EVENTS, 10, wait),
            case.send(EVENTS, round, round),
        );
        let both: Vec<Delivery> = first.into_iter().chain(second).collect();
        assert_eq!(bodies(&both), [round]);
    }
}

/// Receives one message that a dropped receive may have leased.
async fn recover(case: &QueueCase) -> Vec<Delivery> {
    for _ in 0..5 {
        let received = case.receive_waiting(EVENTS, 10, Duration::from_millis(100)).await;
        if !received.is_empty() {
            return received;
        }
        // The lease of the dropped receive may have begun as late as during this one.
        case.advance(VISIBILITY).await;
    }
    Vec::new()
}

pub(super) async fn a_dropped_receive_loses_nothing(case: QueueCase) {
    for round in 0..10_u64 {
        let body = format!("{round}");
        case.send(EVENTS, "g", &body).await;
        let request = case.request(EVENTS, 10, LONG);
        // Dropped at once, or somewhere in the middle.
        let taken = if round % 2 == 0 {
            case.fixture.queue.receive(request).now_or_never()
        } else {
            timeout(Duration::from_micros(300 * round), case.fixture.queue.receive(request)).await.ok()
        };
        let received = match taken {
            Some(received) => received.unwrap(),
            None => recover(&case).await,
        };
        assert_eq!(bodies(&received), [body.as_str()]);
        case.finish(EVENTS, &received[0]).await;
    }
}

pub(super) async fn a_receive_dropped_while_waiting_loses_nothing(case: QueueCase) {
    for round in 0..5_u64 {
        let waiting = case.fixture.queue.receive(case.request(EVENTS, 10, LONG));
        assert!(
            timeout(Duration::from_millis(10 * round), waiting).await.is_err(),
            "there was nothing to receive"
        );
        let body = format!("{round}");
        case.send(EVENTS, "g", &body).await;
        let received = recover(&case).await;
        assert_eq!(bodies(&received), [body.as_str()]);
        case.finish(EVENTS, &received[0]).await;
    }
}

//! A received message belongs to one consumer until its time is over.

use std::time::Duration;

use super::GivenBackWaits;
use super::case::{EVENTS, QueueCase, VISIBILITY, bodies, message};

pub(super) async fn an_expired_message_is_the_same_one_received_once_more(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let first = case.expect(EVENTS, &["1"]).await.remove(0);
    assert_eq!(first.receive_count, 1);
    case.advance(VISIBILITY - case.traits.moment).await;
    case.expect(EVENTS, &[]).await;
    case.advance_until_visible(case.traits.moment).await;
    let second = case.expect(EVENTS, &["1"]).await.remove(0);
    assert_eq!(second.receive_count, 2);
    assert_eq!(second.message_id, first.message_id);
    assert_eq!((second.group, second.sent_at), (first.group, first.sent_at));
    assert_ne!(second.receipt, first.receipt);
}

pub(super) async fn an_expired_batch_is_received_again_in_order(case: QueueCase) {
    case.send_all(["1", "2", "3"].map(|text| message(EVENTS, "g", text)).into()).await;
    for receive_count in 1..4 {
        let received = case.expect(EVENTS, &["1", "2", "3"]).await;
        assert!(received.iter().all(|delivery| delivery.receive_count == receive_count), "{received:?}");
        case.advance_until_visible(VISIBILITY).await;
    }
}

pub(super) async fn no_time_left_gives_a_message_back_at_once(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let first = case.expect(EVENTS, &["1"]).await;
    case.give_back(EVENTS, &first[0], Duration::ZERO).await;
    assert_eq!(case.expect(EVENTS, &["1"]).await[0].receive_count, 2);
}

pub(super) async fn more_time_keeps_a_message(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    // A heartbeat counts from its own time, not from the end of the lease.
    case.advance(VISIBILITY - case.traits.moment).await;
    case.give_back(EVENTS, &received[0], VISIBILITY * 2).await;
    case.advance(VISIBILITY * 2 - case.traits.moment).await;
    case.expect(EVENTS, &[]).await;
    case.advance_until_visible(case.traits.moment).await;
    case.expect(EVENTS, &["1"]).await;
}

pub(super) async fn a_backing_off_head_blocks_its_tail_and_nothing_else(case: QueueCase) {
    let backoff = Duration::from_secs(20);
    case.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    let received = case.expect(EVENTS, &["1", "2"]).await;
    case.give_back(EVENTS, &received[0], backoff).await;
    case.give_back(EVENTS, &received[1], Duration::ZERO).await;
    case.send(EVENTS, "other", "other").await;
    let (at_once, with_the_head): (&[&str], &[&str]) = match case.traits.given_back_waits {
        GivenBackWaits::ForThoseBefore | GivenBackWaits::ForAll => (&["other"], &["1", "2"]),
        GivenBackWaits::ForNone => (&["2", "other"], &["1"]),
    };
    case.expect_sorted(EVENTS, at_once).await;
    case.advance(backoff - case.traits.moment).await;
    case.expect(EVENTS, &[]).await;
    case.advance_until_visible(case.traits.moment).await;
    let again = case.expect(EVENTS, with_the_head).await;
    assert!(again.iter().all(|delivery| delivery.receive_count == 2), "{again:?}");
}

pub(super) async fn a_returned_head_comes_without_its_leased_tail(case: QueueCase) {
    case.send_all(["1", "2", "3"].map(|text| message(EVENTS, "g", text)).into()).await;
    let received = case.receive(EVENTS, 2).await;
    assert_eq!(bodies(&received), ["1", "2"]);
    case.give_back(EVENTS, &received[0], Duration::ZERO).await;
    match case.traits.given_back_waits {
        GivenBackWaits::ForThoseBefore => {
            let head = case.expect(EVENTS, &["1"]).await;
            case.finish(EVENTS, &head[0]).await;
            case.expect(EVENTS, &[]).await;
            case.finish(EVENTS, &received[1]).await;
            case.expect(EVENTS, &["3"]).await;
        }
        GivenBackWaits::ForAll => {
            case.expect(EVENTS, &[]).await;
            case.finish(EVENTS, &received[1]).await;
            case.expect(EVENTS, &["1", "3"]).await;
        }
        GivenBackWaits::ForNone => {
            case.expect(EVENTS, &["1", "3"]).await;
            case.finish(EVENTS, &received[1]).await;
        }
    }
}

pub(super) async fn a_message_received_for_no_time_is_there_at_once(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let mut request = case.request(EVENTS, 1, Duration::ZERO);
    request.visibility_timeout = Duration::ZERO;
    for receive_count in 1..4 {
        let received = case.fixture.queue.receive(request).await.unwrap();
        assert_eq!((bodies(&received), received[0].receive_count), (vec!["1"], receive_count));
    }
}

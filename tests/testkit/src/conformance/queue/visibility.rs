//! A received message belongs to one consumer until its visibility timeout ends.

use std::time::Duration;

use super::ReturnedMessageWaits;
use super::case::{EVENTS, QueueCase, VISIBILITY, bodies, message};

pub(super) async fn an_expired_message_is_received_again_with_the_same_id(case: QueueCase) {
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

pub(super) async fn a_zero_visibility_timeout_returns_a_message_at_once(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let first = case.expect(EVENTS, &["1"]).await;
    case.return_delivery(EVENTS, &first[0], Duration::ZERO).await;
    assert_eq!(case.expect(EVENTS, &["1"]).await[0].receive_count, 2);
}

pub(super) async fn a_longer_visibility_timeout_keeps_a_message_invisible(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    // The new timeout starts at the call, not at the end of the old lease.
    case.advance(VISIBILITY - case.traits.moment).await;
    case.return_delivery(EVENTS, &received[0], VISIBILITY * 2).await;
    case.advance(VISIBILITY * 2 - case.traits.moment).await;
    case.expect(EVENTS, &[]).await;
    case.advance_until_visible(case.traits.moment).await;
    case.expect(EVENTS, &["1"]).await;
}

pub(super) async fn a_backing_off_head_blocks_its_tail_and_nothing_else(case: QueueCase) {
    let backoff = Duration::from_secs(20);
    case.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    let received = case.expect(EVENTS, &["1", "2"]).await;
    case.return_delivery(EVENTS, &received[0], backoff).await;
    case.return_delivery(EVENTS, &received[1], Duration::ZERO).await;
    case.send(EVENTS, "other", "other").await;
    let (at_once, with_the_head): (&[&str], &[&str]) = match case.traits.returned_message_waits {
        ReturnedMessageWaits::ForEarlierMessages | ReturnedMessageWaits::ForAll => (&["other"], &["1", "2"]),
        ReturnedMessageWaits::ForNone => (&["2", "other"], &["1"]),
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
    case.return_delivery(EVENTS, &received[0], Duration::ZERO).await;
    match case.traits.returned_message_waits {
        ReturnedMessageWaits::ForEarlierMessages => {
            let head = case.expect(EVENTS, &["1"]).await;
            case.finish(EVENTS, &head[0]).await;
            case.expect(EVENTS, &[]).await;
            case.finish(EVENTS, &received[1]).await;
            case.expect(EVENTS, &["3"]).await;
        }
        ReturnedMessageWaits::ForAll => {
            case.expect(EVENTS, &[]).await;
            case.finish(EVENTS, &received[1]).await;
            case.expect(EVENTS, &["1", "3"]).await;
        }
        ReturnedMessageWaits::ForNone => {
            case.expect(EVENTS, &["1", "3"]).await;
            case.finish(EVENTS, &received[1]).await;
        }
    }
}

pub(super) async fn a_message_received_with_a_zero_timeout_is_visible_at_once(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let mut request = case.request(EVENTS, 1, Duration::ZERO);
    request.visibility_timeout = Duration::ZERO;
    for receive_count in 1..4 {
        let received = case.fixture.queue.receive(request).await.unwrap();
        assert_eq!((bodies(&received), received[0].receive_count), (vec!["1"], receive_count));
    }
}

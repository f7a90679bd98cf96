//! Messages are in order within a group, and groups do not wait for each other.

use std::time::Duration;

use ports::queue::{QueueName, Receipt};

use super::ReturnedMessageWaits;
use super::case::{EVENTS, QueueCase, bodies, bodies_of, message};

pub(super) async fn a_group_is_received_in_the_order_it_was_sent(case: QueueCase) {
    let texts: Vec<String> = (0..25).map(|number| format!("{number}")).collect();
    // The order of the texts is not the order of sending.
    for chunk in texts.chunks(4) {
        case.send_all(chunk.iter().map(|text| message(EVENTS, "g", text)).collect()).await;
    }
    let mut received = Vec::new();
    while received.len() < texts.len() {
        let deliveries = case.receive(EVENTS, 7).await;
        assert!(!deliveries.is_empty(), "only {} messages came", received.len());
        case.finish_all(EVENTS, &deliveries).await;
        received.extend(deliveries.into_iter().map(|delivery| delivery.body));
    }
    assert_eq!(received, texts);
}

pub(super) async fn a_group_waits_for_its_first_message(case: QueueCase) {
    case.send_all(["1", "2", "3"].map(|text| message(EVENTS, "g", text)).into()).await;
    let first = case.receive(EVENTS, 1).await;
    assert_eq!(bodies(&first), ["1"]);
    case.expect(EVENTS, &[]).await;
    case.finish(EVENTS, &first[0]).await;
    case.expect(EVENTS, &["2", "3"]).await;
}

pub(super) async fn groups_do_not_wait_for_each_other(case: QueueCase) {
    case.send_all(vec![message(EVENTS, "a", "a1"), message(EVENTS, "a", "a2")]).await;
    assert_eq!(bodies(&case.receive(EVENTS, 1).await), ["a1"]);
    case.send_all(vec![message(EVENTS, "b", "b1"), message(EVENTS, "b", "b2")]).await;
    case.expect(EVENTS, &["b1", "b2"]).await;
}

pub(super) async fn queues_do_not_wait_for_each_other(case: QueueCase) {
    case.send_all(vec![message(EVENTS, "g", "event"), message(QueueName::Files, "g", "file")]).await;
    case.expect(EVENTS, &["event"]).await;
    case.send(EVENTS, "g", "event behind").await;
    case.expect(QueueName::Files, &["file"]).await;
    case.expect(QueueName::Channels, &[]).await;
}

pub(super) async fn several_groups_in_one_batch_keep_their_orders(case: QueueCase) {
    let sent = ["a1", "b1", "c1", "b2", "a2", "c2", "a3"].map(|text| message(EVENTS, &text[..1], text));
    case.send_all(sent.into()).await;
    let deliveries = case.receive_all(EVENTS).await;
    assert_eq!(deliveries.len(), 7);
    assert_eq!(bodies_of("a", &deliveries), ["a1", "a2", "a3"]);
    assert_eq!(bodies_of("b", &deliveries), ["b1", "b2"]);
    assert_eq!(bodies_of("c", &deliveries), ["c1", "c2"]);
}

pub(super) async fn a_half_acked_batch_waits_for_its_first_message(case: QueueCase) {
    case.send_all(["1", "2", "3"].map(|text| message(EVENTS, "g", text)).into()).await;
    let received = case.expect(EVENTS, &["1", "2", "3"]).await;
    case.finish(EVENTS, &received[1]).await;
    case.return_delivery(EVENTS, &received[2], Duration::ZERO).await;
    let (at_once, with_the_first): (&[&str], &[&str]) = match case.traits.returned_message_waits {
        ReturnedMessageWaits::ForEarlierMessages | ReturnedMessageWaits::ForAll => (&[], &["1", "3"]),
        ReturnedMessageWaits::ForNone => (&["3"], &["1"]),
    };
    case.expect(EVENTS, at_once).await;
    case.return_delivery(EVENTS, &received[0], Duration::ZERO).await;
    case.expect(EVENTS, with_the_first).await;
}

pub(super) async fn a_message_sent_meanwhile_comes_behind_returned_messages(case: QueueCase) {
    case.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    let received = case.expect(EVENTS, &["1", "2"]).await;
    case.send(EVENTS, "g", "3").await;
    for delivery in received.iter().rev() {
        case.return_delivery(EVENTS, delivery, Duration::ZERO).await;
    }
    case.expect(EVENTS, &["1", "2", "3"]).await;
}

pub(super) async fn a_thousand_groups_are_each_received_in_order(case: QueueCase) {
    let groups: Vec<String> = (0..1000).map(|number| format!("g{number}")).collect();
    for round in ["1", "2"] {
        for chunk in groups.chunks(100) {
            let sent = chunk.iter().map(|group| message(EVENTS, group, &format!("{group}-{round}")));
            case.send_all(sent.collect()).await;
        }
    }
    let mut received: Vec<(String, String)> = Vec::new();
    while received.len() < 2000 {
        let deliveries = case.receive(EVENTS, 1500).await;
        assert!(!deliveries.is_empty(), "only {} messages came", received.len());
        let receipts: Vec<&Receipt> = deliveries.iter().map(|delivery| &delivery.receipt).collect();
        assert_eq!(case.ack(EVENTS, &receipts).await, vec![Ok(()); receipts.len()]);
        received.extend(deliveries.into_iter().map(|delivery| (delivery.group.to_string(), delivery.body)));
    }
    // The sort is stable, so it keeps the order within each group.
    received.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut expected: Vec<(String, String)> = Vec::new();
    for group in groups {
        expected.extend(["1", "2"].map(|round| (group.clone(), format!("{group}-{round}"))));
    }
    expected.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(received, expected);
}

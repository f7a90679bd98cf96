//! Batches, their limits, and the content of messages.

use std::time::Duration;

use ports::queue::{MAX_MESSAGE_BYTES, QueueError, Receipt};

use super::ReceiptEnd;
use super::case::{EVENTS, QueueCase, VISIBILITY, bodies, message, message_with_id};

pub(super) async fn a_queue_is_ready(case: QueueCase) {
    assert_eq!(case.fixture.queue.ready().await, Ok(()));
}

pub(super) async fn empty_batches_are_accepted(case: QueueCase) {
    let queue = &case.fixture.queue;
    assert_eq!(queue.send(Vec::new()).await, []);
    assert_eq!(queue.ack(EVENTS.into(), &[]).await, []);
    assert_eq!(queue.change_visibility(EVENTS.into(), &[]).await, []);
    case.expect(EVENTS, &[]).await;
}

pub(super) async fn a_too_large_message_is_refused_and_its_neighbours_are_sent(case: QueueCase) {
    let bytes = MAX_MESSAGE_BYTES + 1;
    // Bytes count, not characters.
    let wide = "é".repeat(MAX_MESSAGE_BYTES / 2) + "x";
    let results = case
        .fixture
        .queue
        .send(vec![
            message(EVENTS, "g", "1"),
            message(EVENTS, "g", &"x".repeat(bytes)),
            message(EVENTS, "g", "2"),
            message(EVENTS, "g", &wide),
        ])
        .await;
    let refused = Err(QueueError::TooLarge { bytes });
    assert_eq!(results, [Ok(()), refused.clone(), Ok(()), refused]);
    case.expect(EVENTS, &["1", "2"]).await;
}

pub(super) async fn the_largest_message_arrives_whole(case: QueueCase) {
    let body = "é".repeat(case.traits.max_message_bytes / 2);
    case.send(EVENTS, "g", &body).await;
    let received = case.receive_all(EVENTS).await;
    assert!(received.len() == 1 && received[0].body == body, "the body changed in transit");
}

pub(super) async fn any_text_arrives_as_it_was_sent(case: QueueCase) {
    let texts = [
        "",
        "{\"v\":1,\"event\":{ \"text\" : \"\\u00e9\\n\" }}",
        " leading and trailing \r\n\t",
        "quotes ' \" ` and ; -- /* and \\ and %s%n and ?1 :name",
        "nul \0 bell \u{7} escape \u{1b}[31m delete \u{7f}",
        "combining e\u{301} is not é; ﬁ is not fi; ſ is not s",
        "right to left \u{202e}סדר\u{202c} and joined 👩‍👩‍👧‍👦 🏳️‍🌈",
        "unassigned \u{e0080} private \u{f8ff} last \u{10ffff} non-characters \u{fffe}\u{ffff} mark \u{feff}",
    ];
    for (number, text) in texts.iter().enumerate() {
        case.send_all(vec![message_with_id(EVENTS, "g", text, &number.to_string())]).await;
    }
    case.expect(EVENTS, &texts).await;
}

pub(super) async fn a_receive_returns_no_more_than_requested(case: QueueCase) {
    case.send_all((0..12).map(|n| message(EVENTS, &format!("g{}", n % 4), &format!("{n:02}"))).collect())
        .await;
    let mut all = Vec::new();
    for max in [1, 3, 2, 4].into_iter().chain([100; 12]) {
        let received = case.receive(EVENTS, max).await;
        assert!(received.len() <= max, "{max}: {received:?}");
        case.finish_all(EVENTS, &received).await;
        all.extend(received);
    }
    all.sort_by(|a, b| a.body.cmp(&b.body));
    let sent: Vec<String> = (0..12).map(|n| format!("{n:02}")).collect();
    assert_eq!(bodies(&all), sent);
}

pub(super) async fn an_ack_has_a_result_for_each_receipt(case: QueueCase) {
    case.send_all(["1", "2", "3"].map(|text| message(EVENTS, text, text)).into()).await;
    let received = case.expect_sorted(EVENTS, &["1", "2", "3"]).await;
    let (first, third) = (&received[0].receipt, &received[2].receipt);
    let mut results = case.ack(EVENTS, &[first, &Receipt("none".into()), third, first]).await;
    case.expect_second_ack(results.remove(3));
    assert_eq!(results, [Ok(()), Err(QueueError::LeaseLost), Ok(())]);
    case.advance_until_visible(VISIBILITY).await;
    case.expect(EVENTS, &["2"]).await;
}

pub(super) async fn a_change_of_visibility_has_a_result_for_each_entry(case: QueueCase) {
    case.send_all(["1", "2"].map(|text| message(EVENTS, text, text)).into()).await;
    let received = case.expect_sorted(EVENTS, &["1", "2"]).await;
    let mut entries = vec![
        (received[0].receipt.clone(), Duration::ZERO),
        (Receipt("none".into()), VISIBILITY),
        (received[1].receipt.clone(), VISIBILITY * 2),
    ];
    let mut expected = vec![Ok(()), Err(QueueError::LeaseLost), Ok(())];
    if case.traits.receipt_end == ReceiptEnd::Lease {
        // The first entry has just ended this lease.
        entries.push((received[0].receipt.clone(), VISIBILITY));
        expected.push(Err(QueueError::LeaseLost));
    }
    let results = case.fixture.queue.change_visibility(EVENTS.into(), &entries).await;
    assert_eq!(results, expected);
    case.expect(EVENTS, &["1"]).await;
}

pub(super) async fn a_message_carries_the_time_of_its_send(case: QueueCase) {
    case.advance(Duration::from_millis(1234)).await;
    let before = case.now();
    case.send(EVENTS, "g", "1").await;
    let after = case.now();
    case.advance(Duration::from_secs(7)).await;
    let received = case.expect(EVENTS, &["1"]).await;
    case.assert_sent(&received[0], before, after);
    assert_eq!(received[0].group.as_str(), "g");
}

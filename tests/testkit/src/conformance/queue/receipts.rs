//! A receipt is good for one delivery and only while its lease holds.

use std::time::Duration;

use ports::queue::{QueueError, QueueName, QueueRef, Receipt};

use super::ReceiptEnd;
use super::bench::{Bench, EVENTS, VISIBILITY};

/// The receipt can do nothing any more, if receipts end with this at the latest.
async fn expect_ended(bench: &Bench, with: ReceiptEnd, receipt: &Receipt) {
    if bench.traits.receipt_end <= with {
        expect_void(bench, EVENTS, receipt).await;
    }
}

/// The receipt can do nothing any more.
async fn expect_void(bench: &Bench, queue: impl Into<QueueRef>, receipt: &Receipt) {
    let queue = queue.into();
    assert_eq!(bench.change(queue, receipt, Duration::ZERO).await, Err(QueueError::LeaseLost), "{receipt:?}");
    assert_eq!(bench.change(queue, receipt, VISIBILITY).await, Err(QueueError::LeaseLost), "{receipt:?}");
    assert_eq!(bench.ack(queue, &[receipt]).await, [Err(QueueError::LeaseLost)], "{receipt:?}");
}

pub(super) async fn a_receipt_is_void_after_the_next_receive(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let old = bench.expect(EVENTS, &["1"]).await;
    bench.advance_until_visible(VISIBILITY).await;
    let new = bench.expect(EVENTS, &["1"]).await;
    expect_ended(&bench, ReceiptEnd::NextReceive, &old[0].receipt).await;
    // The one who holds it now noticed nothing.
    bench.expect(EVENTS, &[]).await;
    bench.finish(EVENTS, &new[0]).await;
}

pub(super) async fn a_receipt_is_void_when_its_time_is_over(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let received = bench.expect(EVENTS, &["1"]).await;
    bench.advance_until_visible(VISIBILITY).await;
    expect_ended(&bench, ReceiptEnd::Lease, &received[0].receipt).await;
    bench.expect(EVENTS, &["1"]).await;
    // Another one has the message now.
    expect_ended(&bench, ReceiptEnd::NextReceive, &received[0].receipt).await;
    bench.expect(EVENTS, &[]).await;
}

pub(super) async fn a_receipt_is_void_when_the_message_was_given_back(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let received = bench.expect(EVENTS, &["1"]).await;
    bench.give_back(EVENTS, &received[0], Duration::ZERO).await;
    expect_ended(&bench, ReceiptEnd::Lease, &received[0].receipt).await;
    bench.expect(EVENTS, &["1"]).await;
    // Another one has the message now.
    expect_ended(&bench, ReceiptEnd::NextReceive, &received[0].receipt).await;
    bench.expect(EVENTS, &[]).await;
}

pub(super) async fn a_receipt_is_void_after_its_ack(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let received = bench.expect(EVENTS, &["1"]).await;
    bench.finish(EVENTS, &received[0]).await;
    let receipt = &received[0].receipt;
    assert_eq!(bench.change(EVENTS, receipt, Duration::ZERO).await, Err(QueueError::LeaseLost));
    assert_eq!(bench.change(EVENTS, receipt, VISIBILITY).await, Err(QueueError::LeaseLost));
    bench.expect_second_ack(bench.ack(EVENTS, &[receipt]).await.remove(0));
    bench.advance(VISIBILITY).await;
    bench.expect(EVENTS, &[]).await;
}

pub(super) async fn a_receipt_that_never_was_is_void(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let long = "x".repeat(100_000);
    for garbage in [
        "",
        "-",
        "0",
        "1-1",
        "-1--1",
        "1-1-1",
        "1/1",
        "9223372036854775807-4294967295",
        "99999999999999999999-1",
        "' OR 1=1 --",
        "%s%n\0",
        "🦀",
        &long,
    ] {
        expect_void(&bench, EVENTS, &Receipt(garbage.into())).await;
        expect_void(&bench, QueueRef::dead_letters(EVENTS), &Receipt(garbage.into())).await;
    }
    bench.expect(EVENTS, &["1"]).await;
}

pub(super) async fn a_receipt_is_void_on_another_queue(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let received = bench.expect(EVENTS, &["1"]).await;
    expect_void(&bench, QueueName::Files, &received[0].receipt).await;
    expect_void(&bench, QueueRef::dead_letters(EVENTS), &received[0].receipt).await;
    bench.expect(EVENTS, &[]).await;
    bench.finish(EVENTS, &received[0]).await;
}

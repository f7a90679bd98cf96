//! A receipt is valid for one delivery, and only during its lease.

use std::time::Duration;

use ports::queue::{QueueError, QueueName, QueueRef, Receipt};

use super::ReceiptEnd;
use super::case::{EVENTS, QueueCase, VISIBILITY};

/// Asserts that the receipt is void, if the backend's receipts end with this at the latest.
async fn expect_ended(case: &QueueCase, end: ReceiptEnd, receipt: &Receipt) {
    if case.traits.receipt_end <= end {
        expect_void(case, EVENTS, receipt).await;
    }
}

/// Asserts that the receipt is void, before and after the only message is received again.
async fn expect_ended_with_lease(case: &QueueCase, receipt: &Receipt) {
    expect_ended(case, ReceiptEnd::Lease, receipt).await;
    case.expect(EVENTS, &["1"]).await;
    // The message has a new lease now.
    expect_ended(case, ReceiptEnd::NextReceive, receipt).await;
    case.expect(EVENTS, &[]).await;
}

/// Asserts that the receipt is void.
async fn expect_void(case: &QueueCase, queue: impl Into<QueueRef>, receipt: &Receipt) {
    let queue = queue.into();
    assert_eq!(case.change(queue, receipt, Duration::ZERO).await, Err(QueueError::LeaseLost), "{receipt:?}");
    assert_eq!(case.change(queue, receipt, VISIBILITY).await, Err(QueueError::LeaseLost), "{receipt:?}");
    assert_eq!(case.ack(queue, &[receipt]).await, [Err(QueueError::LeaseLost)], "{receipt:?}");
}

pub(super) async fn a_receipt_is_void_after_the_next_receive(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let old = case.expect(EVENTS, &["1"]).await;
    case.advance_until_visible(VISIBILITY).await;
    let new = case.expect(EVENTS, &["1"]).await;
    expect_ended(&case, ReceiptEnd::NextReceive, &old[0].receipt).await;
    // The current lease is unchanged.
    case.expect(EVENTS, &[]).await;
    case.finish(EVENTS, &new[0]).await;
}

pub(super) async fn a_receipt_is_void_when_its_lease_ends(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    case.advance_until_visible(VISIBILITY).await;
    expect_ended_with_lease(&case, &received[0].receipt).await;
}

pub(super) async fn a_receipt_is_void_after_its_message_was_returned(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    case.return_delivery(EVENTS, &received[0], Duration::ZERO).await;
    expect_ended_with_lease(&case, &received[0].receipt).await;
}

pub(super) async fn a_receipt_is_void_after_its_ack(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    case.finish(EVENTS, &received[0]).await;
    let receipt = &received[0].receipt;
    assert_eq!(case.change(EVENTS, receipt, Duration::ZERO).await, Err(QueueError::LeaseLost));
    assert_eq!(case.change(EVENTS, receipt, VISIBILITY).await, Err(QueueError::LeaseLost));
    case.expect_second_ack(case.ack(EVENTS, &[receipt]).await.remove(0));
    case.advance(VISIBILITY).await;
    case.expect(EVENTS, &[]).await;
}

pub(super) async fn a_made_up_receipt_is_void(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
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
        expect_void(&case, EVENTS, &Receipt(garbage.into())).await;
        expect_void(&case, QueueRef::dead_letters(EVENTS), &Receipt(garbage.into())).await;
    }
    case.expect(EVENTS, &["1"]).await;
}

pub(super) async fn a_receipt_is_void_on_another_queue(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    expect_void(&case, QueueName::Files, &received[0].receipt).await;
    expect_void(&case, QueueRef::dead_letters(EVENTS), &received[0].receipt).await;
    case.expect(EVENTS, &[]).await;
    case.finish(EVENTS, &received[0]).await;
}

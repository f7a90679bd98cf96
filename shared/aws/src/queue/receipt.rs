//! Receipts that contain their queue: SQS's own do not, and SQS may accept one for another queue.

use ports::queue::{QueueError, QueueRef, Receipt};

/// Between the queue's label and SQS's receipt handle.
const SEPARATOR: char = '|';
/// Four times the documented maximum, so that garbage is not sent to SQS.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
const MAX_HANDLE_BYTES: usize = 4 * 1024;

/// Makes the receipt of a delivery.
pub(super) fn make_receipt(queue: QueueRef, handle: &str) -> Receipt {
    Receipt(format!("{queue}{SEPARATOR}{handle}"))
}

/// Returns SQS's receipt handle. A receipt that was not made here for this queue has no lease.
pub(super) fn receipt_handle(queue: QueueRef, receipt: &Receipt) -> Result<&str, QueueError> {
    let (label, handle) = receipt.0.split_once(SEPARATOR).ok_or(QueueError::LeaseLost)?;
    let length = 1..=MAX_HANDLE_BYTES;
    // A malformed handle fails the whole call, including the other entries.
    let readable = length.contains(&handle.len()) && handle.bytes().all(|byte| byte.is_ascii_graphic());
    if readable && label == queue.to_string() { Ok(handle) } else { Err(QueueError::LeaseLost) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::queue::QueueName;

    #[test]
    fn a_receipt_is_valid_for_its_own_queue_only() {
        let events = QueueRef::from(QueueName::Events);
        let receipt = make_receipt(events, "AQEB/handle+with|everything==");
        assert_eq!(receipt_handle(events, &receipt), Ok("AQEB/handle+with|everything=="));
        for other in [QueueRef::dead_letters(QueueName::Events), QueueName::Files.into()] {
            assert_eq!(receipt_handle(other, &receipt), Err(QueueError::LeaseLost));
        }
    }

    #[test]
    fn garbage_is_not_a_receipt() {
        let long = format!("events|{}", "x".repeat(MAX_HANDLE_BYTES + 1));
        for garbage in
            ["", "|", "events", "events|", "|handle", "events|a b", "events|\0", "events|🦀", &long]
        {
            let receipt = Receipt(garbage.into());
            assert_eq!(
                receipt_handle(QueueName::Events.into(), &receipt),
                Err(QueueError::LeaseLost),
                "{garbage:?}"
            );
        }
    }
}

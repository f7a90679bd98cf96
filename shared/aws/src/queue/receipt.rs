//! Receipts that say which queue they are of: SQS's own do not, and it may take one for another queue's.

use ports::queue::{QueueError, QueueRef, Receipt};

/// Between the queue's label and SQS's receipt handle.
const SEPARATOR: char = '|';
/// Four times what SQS gives, so that garbage is not carried there.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
const MAX_HANDLE_BYTES: usize = 4 * 1024;

/// The receipt of a delivery.
pub(super) fn make(queue: QueueRef, handle: &str) -> Receipt {
    Receipt(format!("{queue}{SEPARATOR}{handle}"))
}

/// SQS's receipt handle. What was not made here for this queue is no lease of it.
pub(super) fn handle(queue: QueueRef, receipt: &Receipt) -> Result<&str, QueueError> {
    let (label, handle) = receipt.0.split_once(SEPARATOR).ok_or(QueueError::LeaseLost)?;
    let length = 1..=MAX_HANDLE_BYTES;
    // A handle SQS would refuse to read fails the whole call, with the others' entries.
    let readable = length.contains(&handle.len()) && handle.bytes().all(|byte| byte.is_ascii_graphic());
    if readable && label == queue.to_string() { Ok(handle) } else { Err(QueueError::LeaseLost) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::queue::QueueName;

    #[test]
    fn a_receipt_is_good_for_its_own_queue_only() {
        let events = QueueRef::from(QueueName::Events);
        let receipt = make(events, "AQEB/handle+with|everything==");
        assert_eq!(handle(events, &receipt), Ok("AQEB/handle+with|everything=="));
        for other in [QueueRef::dead_letters(QueueName::Events), QueueName::Files.into()] {
            assert_eq!(handle(other, &receipt), Err(QueueError::LeaseLost));
        }
    }

    #[test]
    fn garbage_is_no_receipt() {
        let long = format!("events|{}", "x".repeat(MAX_HANDLE_BYTES + 1));
        for garbage in
            ["", "|", "events", "events|", "|handle", "events|a b", "events|\0", "events|🦀", &long]
        {
            let receipt = Receipt(garbage.into());
            assert_eq!(handle(QueueName::Events.into(), &receipt), Err(QueueError::LeaseLost), "{garbage:?}");
        }
    }
}

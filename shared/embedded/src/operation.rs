//! Operations of the writer thread: work within its transaction, and the reply to the caller.

use rusqlite::Connection;
use tokio::sync::oneshot;

use ports::clock::TimestampMs;

/// An operation that did not become durable.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct WriteError(pub(super) String);

/// The transaction of an operation.
pub(super) struct Transaction<'a> {
    /// The connection, within the transaction.
    pub(super) connection: &'a Connection,
    /// The time of this transaction.
    pub(super) now: TimestampMs,
    /// Grows with every rollback: values cached from the database may be wrong then.
    pub(super) rollbacks: u64,
    /// Grows whenever another process has changed the database.
    pub(super) foreign_commits: u64,
}

/// An operation for the writer thread.
pub(super) trait Operation: Send {
    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, outcome: Result<(), WriteError>);
}

/// An operation with a caller that waits for the result.
pub(super) struct AnsweredOperation<T, F, A> {
    pub(super) work: F,
    pub(super) result: Option<T>,
    pub(super) reply: oneshot::Sender<Result<T, WriteError>>,
    /// Gets the result if the caller is gone.
    pub(super) abandoned: A,
}

impl<T, F, A> Operation for AnsweredOperation<T, F, A>
where
    T: Send,
    F: FnMut(&Transaction<'_>) -> rusqlite::Result<T> + Send,
    A: FnOnce(T) + Send,
{
    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        self.result = Some((self.work)(transaction)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), WriteError>) {
        let answer = match (outcome, self.result) {
            (Ok(()), Some(result)) => Ok(result),
            (Ok(()), None) => Err(WriteError("the operation did not run".into())),
            (Err(error), _) => Err(error),
        };
        if let Err(Ok(result)) = self.reply.send(answer) {
            (self.abandoned)(result);
        }
    }
}

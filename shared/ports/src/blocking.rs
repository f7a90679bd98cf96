//! Reads that block their thread, such as those of a database on this machine.

use std::cell::Cell;

use tokio::task::{JoinError, spawn_blocking};

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Runs work in this thread, where only this work waits: what it reads may block the thread.
pub fn in_own_thread<T>(work: impl FnOnce() -> T) -> T {
    // Reset even if the work panics: the runtime uses the thread again.
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_OWN.set(self.0);
        }
    }
    let _reset = Reset(IS_OWN.replace(true));
    work()
}

/// Runs a read that blocks: here if it is [`in_own_thread`], and otherwise in a thread that the runtime has for it. To
/// wake that thread, and this one afterwards, takes longer than most reads.
///
/// The read must not wait for others: nothing can end it early here.
///
/// # Errors
/// If the read panics in another thread.
pub async fn read<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if IS_OWN.get() { Ok(read()) } else { spawn_blocking(read).await }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test]
    async fn a_read_blocks_only_a_thread_of_its_own() {
        let here = thread::current().id();
        assert_ne!(read(|| thread::current().id()).await.unwrap(), here);
        let runtime = Handle::current();
        let own = spawn_blocking(move || {
            let reader = in_own_thread(|| runtime.block_on(read(|| thread::current().id())));
            assert!(catch_unwind(AssertUnwindSafe(|| in_own_thread(|| panic!("ends")))).is_err());
            let after = runtime.block_on(read(|| thread::current().id()));
            (thread::current().id(), reader.unwrap(), after.unwrap())
        });
        let (thread, reader, after) = own.await.unwrap();
        assert_eq!(reader, thread);
        assert_ne!(after, thread, "the thread is not its own any more");
    }
}

//! Processes that start at the same moment on one data folder.

use std::sync::Barrier;

use embedded::{Database, OpenError};
use ports::clock::SystemClock;

const PROCESSES: usize = 8;

#[test]
fn processes_that_create_an_archive_at_the_same_moment_all_open_it() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let barrier = Barrier::new(PROCESSES);
        let open = || {
            barrier.wait();
            Database::open(folder.path(), SystemClock::shared()).map(drop)
        };
        let opened: Vec<Result<(), OpenError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..PROCESSES).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for opened in opened {
            opened.unwrap();
        }
    }
}

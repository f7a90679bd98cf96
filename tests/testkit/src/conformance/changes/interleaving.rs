//! A follower's copy finally equals the archive, in any interleaving of writes, reads and crashes.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use ports::archive::{ArchiveExt, ItemKey, Update};
use tokio::task::yield_now;

use super::case::{CHANNELS, ChangesCase, Follower, message, setting};

/// A random message of a small set over several days, so that most messages are written more than once.
fn any_message(random: &mut Rng, history: u64) -> ItemKey {
    let (day, number) = (random.i64(0..3), random.i64(0..8));
    message(
        random.usize(0..CHANNELS.len()),
        &format!("{}.{history:06}", 1_700_000_000 + day * 86_400 + number * 1000),
    )
}

/// Makes a random write of any kind.
async fn write(case: &ChangesCase, random: &mut Rng, history: u64, step: usize) {
    let archive = &case.fixture.archive;
    match random.u8(0..10) {
        // One field of a message, as a register update does.
        0..=5 => {
            let name = ["text", "reactions", "deleted"][random.usize(0..3)];
            archive.write(&setting(any_message(random, history), name, step)).await.unwrap();
        }
        6 => {
            let updates: Vec<Update> =
                (0..5).map(|_| setting(any_message(random, history), "text", step)).collect();
            let each: Vec<&Update> = updates.iter().collect();
            archive.write_all(&each).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
        }
        7 => case.write(ItemKey::new("revision#T1#C1", step.to_string()), "another kind").await,
        8 => drop(archive.erase(&any_message(random, history)).await.unwrap()),
        _ => {
            // Short-lived rows, often the last row of the table.
            let mark = ItemKey::new("quarantine#events", random.u8(0..3).to_string());
            match archive.get(&mark).await.unwrap() {
                Some(row) => assert!(archive.delete_unchanged(&row).await.unwrap()),
                None => case.write(mark, "a job").await,
            }
        }
    }
}

pub(super) async fn a_follower_ends_equal_to_the_archive(case: ChangesCase) {
    let (histories, steps) = case.traits.histories;
    let mut follower = Follower::default();
    for seed in 0..histories {
        let mut random = Rng::with_seed(seed);
        if seed % 16 == 0 {
            follower = Follower::default();
        }
        let mut earlier = follower.clone();
        for step in 0..steps {
            match random.u8(0..10) {
                0..=5 => write(&case, &mut random, seed, step).await,
                6 => drop(follower.step(&case, random.usize(1..6)).await),
                // The follower crashes before it stores a batch, or restarts from an older copy.
                7 => drop(follower.clone().step(&case, random.usize(1..6)).await),
                8 if random.bool() => earlier = follower.clone(),
                8 => follower = earlier.clone(),
                _ => case.fixture.clock.advance(Duration::from_secs(random.u64(0..7200))),
            }
        }
        follower.catch_up(&case, 7).await;
        assert_eq!(follower.messages, case.messages().await, "seed {seed}");
    }
}

pub(super) async fn a_follower_during_concurrent_writes_ends_equal_to_the_archive(case: ChangesCase) {
    let case = Arc::new(case);
    let writers = (0..4).map(|seed| {
        let case = Arc::clone(&case);
        tokio::spawn(async move {
            let mut random = Rng::with_seed(seed);
            for step in 0..case.traits.histories.1 {
                case.fixture
                    .archive
                    .write(&setting(any_message(&mut random, 0), "text", step))
                    .await
                    .unwrap();
            }
        })
    });
    let writers = tokio::spawn(join_all(writers));
    let mut follower = Follower::default();
    while !writers.is_finished() {
        follower.step(&case, 3).await;
        // A call may return without yielding.
        yield_now().await;
    }
    writers.await.unwrap().into_iter().for_each(|writer| writer.unwrap());
    case.expect_equal(&mut follower, 3).await;
}

use std::sync::Arc;

use testkit::faults::{FaultyArchive, RecordedCalls};
use testkit::memory::archive::MemoryArchive;

use super::*;
use crate::fixture::{at, channel_id, filled, message, team};

async fn backfilled(archive: &MemoryArchive, seconds: std::ops::Range<i64>) {
    for second in seconds {
        message(archive, second, &version::zero()).await;
    }
}

async fn found(archive: &MemoryArchive) -> Option<Ts> {
    found_in_runs(archive, &[]).await
}

async fn found_in_runs(archive: &MemoryArchive, runs: &[RunSpan]) -> Option<Ts> {
    first_post(archive, &team(), &channel_id("C1"), runs, &at(0)).await.unwrap()
}

fn run(from: i64, to: i64) -> RunSpan {
    RunSpan { first: at(from), last: at(to) }
}

#[tokio::test]
async fn the_search_skips_any_number_of_backfilled_messages_in_filled_spans() {
    let archive = MemoryArchive::new();
    backfilled(&archive, 1..1_500).await;
    message(&archive, 1_500, &at(1_500)).await;
    assert_eq!(found(&archive).await, None, "no filled span covers them");
    filled(&archive, "C10", 0, 1_500).await;
    assert_eq!(found(&archive).await, None, "another channel");
    // Two spans that overlap, and a message right after the second.
    filled(&archive, "C1", 0, 900).await;
    filled(&archive, "C1", 800, 1_500).await;
    assert_eq!(found(&archive).await, Some(at(1_500)));
}

#[tokio::test]
async fn a_delivered_message_before_a_filled_span_is_found() {
    let archive = MemoryArchive::new();
    message(&archive, 1, &at(1)).await;
    backfilled(&archive, 2..10).await;
    filled(&archive, "C1", 0, 10).await;
    assert_eq!(found(&archive).await, Some(at(1)));
}

#[tokio::test]
async fn a_span_without_later_messages_ends_the_search() {
    let archive = MemoryArchive::new();
    backfilled(&archive, 1..600).await;
    for (from, to) in [(0, 600), (0, 1), (2, 600)] {
        filled(&archive, "C1", from, to).await;
        assert_eq!(found(&archive).await, None);
    }
}

#[tokio::test]
async fn what_was_filled_later_hides_no_delivered_message() {
    let hours = |hours: i64| hours * 3_600;
    // Older history, then a message that was delivered, then others that only history has.
    for (first, last) in [(hours(10), hours(10)), (hours(10), hours(30)), (hours(9), hours(11))] {
        let archive = MemoryArchive::new();
        for hour in (1..40).filter(|hour| *hour != 10) {
            message(&archive, hours(hour), &version::zero()).await;
        }
        message(&archive, hours(10), &at(hours(10))).await;
        let runs = [run(first, last), run(hours(35), hours(36))];
        let before = found_in_runs(&archive, &runs).await;
        assert_eq!(before, Some(at(hours(10))));
        for (from, to) in [(0, hours(40)), (0, hours(10)), (hours(9), hours(12)), (hours(10), hours(50))] {
            filled(&archive, "C1", from, to).await;
            assert_eq!(found_in_runs(&archive, &runs).await, before, "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn only_the_times_of_runs_are_searched_in_filled_spans() {
    let archive = MemoryArchive::new();
    backfilled(&archive, 1..30_000).await;
    filled(&archive, "C1", 0, 40_000).await;
    message(&archive, 35_000, &at(35_000)).await;
    // The first run has no message of the channel that was delivered.
    let runs = [run(1_000, 2_000), run(34_000, 35_000)];
    let calls = Arc::<RecordedCalls>::default();
    let counted = FaultyArchive::with_schedule(Arc::new(archive), calls.clone());
    let found = first_post(&counted, &team(), &channel_id("C1"), &runs, &at(0)).await.unwrap();
    assert_eq!(found, Some(at(35_000)));
    assert!(calls.take_calls().len() < 30, "it reads the messages around runs in large pages");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever was filled, and whenever: what was delivered is found at the same time.
        #[test]
        fn filled_spans_make_no_difference(
            delivered in prop::collection::vec(any::<bool>(), 1..60),
            spans in prop::collection::vec((0..70i64, 1..70i64), 0..4),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let archive = MemoryArchive::new();
                let hour = |index: usize| i64::try_from(index + 1).unwrap() * 3_600;
                let mut runs = Vec::new();
                for (index, delivered) in delivered.iter().enumerate() {
                    let second = hour(index);
                    let clock = if *delivered { at(second) } else { version::zero() };
                    message(&archive, second, &clock).await;
                    runs.extend(delivered.then(|| run(second, second)));
                }
                let expected = delivered.iter().position(|delivered| *delivered).map(|index| at(hour(index)));
                prop_assert_eq!(&found_in_runs(&archive, &runs).await, &expected);
                for (from, length) in spans {
                    filled(&archive, "C1", from * 3_600, (from + length) * 3_600).await;
                    prop_assert_eq!(&found_in_runs(&archive, &runs).await, &expected);
                }
                Ok(())
            })?;
        }
    }
}

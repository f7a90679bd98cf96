//! An archive that names channels and days, and not rows: what is stopped goes on from there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use search::follower::{self, BATCH, DAYS};
use testkit::faults::{CallFault, FaultSchedule, FaultyArchive, PortMethod};
use testkit::memory::watched::WatchedArchive;
use tokio::sync::watch;

use crate::fixture::{SearchFixture, message};

/// The process is told to stop while the first page of rows is read.
struct Stopping(watch::Sender<bool>);

#[async_trait]
impl FaultSchedule for Stopping {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        None
    }

    async fn after(&self, _: PortMethod) {
        self.0.send_replace(true);
    }
}

/// Three channels with two messages each.
async fn three_channels() -> SearchFixture {
    let fixture = SearchFixture::by_day().await;
    for channel in ["C1", "C2", "C3"] {
        let messages = ["1700000000.000100", "1700000001.000100"].map(|ts| message(ts, "here"));
        fixture.store(channel, &messages).await;
    }
    fixture
}

#[tokio::test]
async fn what_is_stopped_behind_a_channel_does_not_read_it_again() {
    let fixture = three_channels().await;
    let index = fixture.index().await;
    let until_two = |taken_in: usize| taken_in < 2;
    assert!(
        !follower::catch_up(&index, &*fixture.changes, &*fixture.archive, BATCH, until_two).await.unwrap()
    );
    assert_eq!(index.count().await.unwrap(), 2);
    let watched = WatchedArchive::of(Arc::clone(&fixture.archive));
    assert!(follower::catch_up(&index, &*fixture.changes, &watched, BATCH, |_| true).await.unwrap());
    assert_eq!(watched.read(), ["message#T1#C2", "message#T1#C2", "message#T1#C3", "message#T1#C3"]);
    assert_eq!(index.count().await.unwrap(), 6);
}

#[tokio::test]
async fn what_is_stopped_within_a_channel_reads_it_again_and_has_lost_nothing() {
    let fixture = SearchFixture::by_day().await;
    let messages: Vec<_> =
        (0..1_500).map(|number| message(&format!("1700000000.{number:06}"), "here")).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.index().await;
    let (changes, archive) = (&*fixture.changes, &*fixture.archive);
    assert!(!follower::catch_up(&index, changes, archive, BATCH, |taken_in| taken_in == 0).await.unwrap());
    assert_eq!((index.count().await.unwrap(), index.cursor().await.unwrap()), (1_000, None));
    assert!(follower::catch_up(&index, changes, archive, BATCH, |_| true).await.unwrap());
    assert_eq!(index.count().await.unwrap(), 1_500);
}

#[tokio::test]
async fn a_search_that_waits_for_a_few_days_at_once_comes_further_each_time() {
    let fixture = three_channels().await;
    let index = fixture.caught_up().await;
    for day in 0..20 {
        fixture.store("C1", &[message(&format!("{}.000100", 1_710_000_000 + day * 86_400), "new")]).await;
    }
    let mut runs = 0;
    loop {
        runs += 1;
        let so_far = index.count().await.unwrap();
        let goes_on = |taken_in: usize| taken_in < DAYS;
        if follower::catch_up(&index, &*fixture.changes, &*fixture.archive, DAYS, goes_on).await.unwrap() {
            break;
        }
        assert!(index.count().await.unwrap() > so_far);
    }
    assert!(runs > 1);
    assert_eq!(index.count().await.unwrap(), 26);
}

#[tokio::test]
async fn a_follower_that_is_told_to_stop_ends_within_a_channel() {
    let fixture = SearchFixture::by_day().await;
    let messages: Vec<_> =
        (0..1_500).map(|number| message(&format!("1700000000.{number:06}"), "here")).collect();
    fixture.store("C1", &messages).await;
    let (stop, stopped) = watch::channel(false);
    let archive = FaultyArchive::on(Arc::clone(&fixture.archive), Arc::new(Stopping(stop)));
    let (file, changes) = (fixture.file(), Arc::clone(&fixture.changes));
    follower::follow(&file, Duration::from_millis(1), changes, Arc::new(archive), stopped).await;
    let index = fixture.index().await;
    assert_eq!((index.count().await.unwrap(), index.cursor().await.unwrap()), (1_000, None));
}

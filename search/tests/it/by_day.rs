//! An archive that reports changed channels and days instead of rows: a stopped follower continues where it
//! stopped.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use search::background;
use search::follower::{self, BATCH_SIZE, DAYS_PER_BATCH};
use testkit::faults::{CallFault, FaultSchedule, FaultyArchive, PortMethod};
use testkit::memory::watched::WatchedArchive;
use tokio::sync::watch;

use crate::fixture::{SearchFixture, message};

/// Requests a stop while the first page of rows is read.
struct StopOnFirstRead(watch::Sender<bool>);

#[async_trait]
impl FaultSchedule for StopOnFirstRead {
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
async fn a_follower_stopped_after_a_channel_does_not_read_it_again() {
    let fixture = three_channels().await;
    let index = fixture.index().await;
    let until_two = |written: usize| written < 2;
    assert!(
        !follower::catch_up(&index, &*fixture.changes, &*fixture.archive, BATCH_SIZE, until_two)
            .await
            .unwrap()
    );
    assert_eq!(index.count().await.unwrap(), 2);
    let watched = WatchedArchive::new(Arc::clone(&fixture.archive));
    assert!(follower::catch_up(&index, &*fixture.changes, &watched, BATCH_SIZE, |_| true).await.unwrap());
    assert_eq!(watched.read(), ["message#T1#C2", "message#T1#C2", "message#T1#C3", "message#T1#C3"]);
    assert_eq!(index.count().await.unwrap(), 6);
}

#[tokio::test]
async fn a_follower_stopped_within_a_channel_reads_it_again_and_loses_no_message() {
    let fixture = SearchFixture::by_day().await;
    let messages: Vec<_> =
        (0..1_500).map(|number| message(&format!("1700000000.{number:06}"), "here")).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.index().await;
    let (changes, archive) = (&*fixture.changes, &*fixture.archive);
    assert!(!follower::catch_up(&index, changes, archive, BATCH_SIZE, |written| written == 0).await.unwrap());
    assert_eq!((index.count().await.unwrap(), index.cursor().await.unwrap()), (1_000, None));
    assert!(follower::catch_up(&index, changes, archive, BATCH_SIZE, |_| true).await.unwrap());
    assert_eq!(index.count().await.unwrap(), 1_500);
}

#[tokio::test]
async fn each_catch_up_of_a_few_days_advances_the_index() {
    let fixture = three_channels().await;
    let index = fixture.caught_up().await;
    for day in 0..20 {
        fixture.store("C1", &[message(&format!("{}.000100", 1_710_000_000 + day * 86_400), "new")]).await;
    }
    let mut runs = 0;
    loop {
        runs += 1;
        let count_before = index.count().await.unwrap();
        let should_continue = |written: usize| written < DAYS_PER_BATCH;
        if follower::catch_up(&index, &*fixture.changes, &*fixture.archive, DAYS_PER_BATCH, should_continue)
            .await
            .unwrap()
        {
            break;
        }
        assert!(index.count().await.unwrap() > count_before);
    }
    assert!(runs > 1);
    assert_eq!(index.count().await.unwrap(), 26);
}

#[tokio::test]
async fn a_follower_stops_within_a_channel() {
    let fixture = SearchFixture::by_day().await;
    let messages: Vec<_> =
        (0..1_500).map(|number| message(&format!("1700000000.{number:06}"), "here")).collect();
    fixture.store("C1", &messages).await;
    let (stop, stopped) = watch::channel(false);
    let archive = FaultyArchive::with_schedule(Arc::clone(&fixture.archive), Arc::new(StopOnFirstRead(stop)));
    let (file, changes) = (fixture.file(), Arc::clone(&fixture.changes));
    background::follow(&file, Duration::from_millis(1), changes, Arc::new(archive), stopped).await;
    let index = fixture.index().await;
    assert_eq!((index.count().await.unwrap(), index.cursor().await.unwrap()), (1_000, None));
}

//! Two followers of one index, of an archive that names days of channels and not rows.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ports::archive::ArchiveError;
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes};
use search::follower;
use search::index::SearchIndex;
use slack::ids::ChannelId;
use testkit::faults::{CallFault, FaultPlan, FaultSchedule, FaultyArchive, PortMethod};
use tokio::sync::{mpsc, oneshot};

use crate::fixture::{SearchFixture, message, team};

const TS: &str = "1700000000.000100";

/// Two channels have changed since the beginning, and nothing since.
struct TwoChannels;

#[async_trait]
impl Changes for TwoChannels {
    async fn since(&self, cursor: Option<&ChangeCursor>, _: usize) -> Result<ChangeBatch, ArchiveError> {
        let channels: &[&str] = if cursor.is_none() { &["C1", "C2"] } else { &[] };
        let whole = |id: &&str| ChangedSpan::whole(team(), ChannelId::parse(id).unwrap());
        Ok(ChangeBatch::Spans { spans: channels.iter().map(whole).collect(), next: ChangeCursor::new("end") })
    }

    async fn behind(&self, _: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        Ok(None)
    }
}

/// After the first query, and before its answer is there, something else happens.
struct Pausing {
    paused: mpsc::UnboundedSender<()>,
    goes_on: Mutex<Option<oneshot::Receiver<()>>>,
}

#[async_trait]
impl FaultSchedule for Pausing {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        None
    }

    async fn after(&self, _: PortMethod) {
        let goes_on = self.goes_on.lock().unwrap().take();
        if let Some(goes_on) = goes_on {
            self.paused.send(()).unwrap();
            goes_on.await.unwrap();
        }
    }
}

async fn step(index: &SearchIndex, archive: &FaultyArchive) -> bool {
    follower::step(index, &TwoChannels, archive).await.is_ok()
}

#[tokio::test]
async fn what_one_follower_has_read_before_does_not_replace_what_the_other_has_read_since() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "the first text")]).await;
    let (slow, quick) = (fixture.index().await, fixture.index().await);
    let (paused, mut is_paused) = mpsc::unbounded_channel();
    let (go_on, goes_on) = oneshot::channel();
    let pausing = Arc::new(Pausing { paused, goes_on: Mutex::new(Some(goes_on)) });
    let behind = FaultyArchive::on(Arc::clone(&fixture.archive), pausing);
    let following = step(&slow, &behind);
    let meanwhile = async {
        is_paused.recv().await.unwrap();
        let mut edited = message(TS, "another text");
        edited["edited"] = serde_json::json!({ "user": "U1", "ts": "1700000100.000000" });
        fixture.store("C1", &[edited]).await;
        // This one takes in the first channel, and ends before the second.
        let ends = FaultPlan::none().and(PortMethod::Query, 2..=2, CallFault::FailBefore);
        let ending = FaultyArchive::new(Arc::clone(&fixture.archive), ends);
        assert!(!step(&quick, &ending).await);
        go_on.send(()).unwrap();
    };
    let (followed, ()) = tokio::join!(following, meanwhile);
    assert!(followed);
    assert_eq!(fixture.found(&slow, "another is:edited").await, [TS]);
    assert_eq!(slow.count().await.unwrap(), 1);
}

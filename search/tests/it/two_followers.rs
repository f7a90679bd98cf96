//! Two followers of one index, with an archive that reports changed days of channels instead of rows.

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

/// Reports two changed channels, and no later changes.
struct TwoChannels;

#[async_trait]
impl Changes for TwoChannels {
    async fn since(&self, cursor: Option<&ChangeCursor>, _: usize) -> Result<ChangeBatch, ArchiveError> {
        let channels: &[&str] = if cursor.is_none() { &["C1", "C2"] } else { &[] };
        let whole = |id: &&str| ChangedSpan::whole(team(), ChannelId::parse(id).unwrap());
        Ok(ChangeBatch::Spans { spans: channels.iter().map(whole).collect(), next: ChangeCursor::new("end") })
    }

    async fn backlog_estimate(&self, _: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        Ok(None)
    }
}

/// Pauses after the first query and before its result is returned.
struct PauseAfterQuery {
    paused: mpsc::UnboundedSender<()>,
    resume: Mutex<Option<oneshot::Receiver<()>>>,
}

#[async_trait]
impl FaultSchedule for PauseAfterQuery {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        None
    }

    async fn after(&self, _: PortMethod) {
        let resume = self.resume.lock().unwrap().take();
        if let Some(resume) = resume {
            self.paused.send(()).unwrap();
            resume.await.unwrap();
        }
    }
}

async fn step(index: &SearchIndex, archive: &FaultyArchive) -> bool {
    follower::step(index, &TwoChannels, archive, |_| true).await.is_ok()
}

#[tokio::test]
async fn a_slow_follower_does_not_replace_newer_content_of_another() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "the first text")]).await;
    let (slow, quick) = (fixture.index().await, fixture.index().await);
    let (paused, mut is_paused) = mpsc::unbounded_channel();
    let (resume_sender, resume) = oneshot::channel();
    let pausing = Arc::new(PauseAfterQuery { paused, resume: Mutex::new(Some(resume)) });
    let behind = FaultyArchive::with_schedule(Arc::clone(&fixture.archive), pausing);
    let following = step(&slow, &behind);
    let meanwhile = async {
        is_paused.recv().await.unwrap();
        let mut edited = message(TS, "another text");
        edited["edited"] = serde_json::json!({ "user": "U1", "ts": "1700000100.000000" });
        fixture.store("C1", &[edited]).await;
        // This follower writes the first channel and fails before the second.
        let ends = FaultPlan::none().with_rule(PortMethod::Query, 2..=2, CallFault::FailBefore);
        let ending = FaultyArchive::new(Arc::clone(&fixture.archive), ends);
        assert!(!step(&quick, &ending).await);
        resume_sender.send(()).unwrap();
    };
    let (followed, ()) = tokio::join!(following, meanwhile);
    assert!(followed);
    assert_eq!(fixture.found(&slow, "another is:edited").await, [TS]);
    assert_eq!(slow.count().await.unwrap(), 1);
}

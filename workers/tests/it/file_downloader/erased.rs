//! Messages and people that are erased while their files or pictures are fetched.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::archive::{Archive, ArchiveExt, ErasureFact, ErasureScope, ItemKey};
use ports::files::{FileKey, Files};
use ports::queue::Delivery;
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, Ts, UserId};
use slack_api::{BotToken, Tokens};
use testkit::faults::{CallFault, CrashPoint, FaultSchedule, FaultyArchive, FaultyFiles, PortMethod};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use wiremock::MockServer;
use workers::PortError;
use workers::eraser::EraserMode;
use workers::file_downloader::FileDownloader;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{
    DownloaderFixture, Stores, TOKEN, TS, bytes, info, settings, slack, team, with_slack, worker,
};
use crate::eraser;

/// Runs an action of another process at one step of this one.
struct ActionAtStep {
    step: u64,
    steps: AtomicU64,
    other: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl ActionAtStep {
    fn new(step: u64, other: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self { step, steps: AtomicU64::new(0), other: Mutex::new(Some(other.boxed())) })
    }

    async fn other(&self) {
        let other = self.other.lock().unwrap().take();
        if let Some(other) = other {
            other.await;
        }
    }

    /// The stores of a fixture, whose calls are the steps.
    fn stores(self: &Arc<Self>, fixture: &DownloaderFixture) -> Stores {
        let schedule = || Arc::clone(self) as Arc<dyn FaultSchedule>;
        let archive = FaultyArchive::with_schedule(fixture.archive.clone(), schedule());
        (Arc::new(archive), Arc::new(FaultyFiles::with_schedule(Arc::new(fixture.files.clone()), schedule())))
    }

    /// Runs the action now if the step was not reached. Returns whether it was reached.
    async fn ended(&self) -> bool {
        self.other().await;
        self.steps.load(Ordering::SeqCst) > self.step
    }
}

#[async_trait]
impl FaultSchedule for ActionAtStep {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        if self.steps.fetch_add(1, Ordering::SeqCst) == self.step {
            self.other().await;
        }
        None
    }
}

fn message(channel: &str) -> ItemKey {
    ItemKey::message(&team(), &ChannelId::parse(channel).unwrap(), &Ts::parse(TS).unwrap())
}

fn file() -> FileId {
    FileId::parse("F01").unwrap()
}

/// The fact that erases the message in C01.
fn fact() -> ErasureFact {
    let scope = ErasureScope::Message(ChannelId::parse("C01").unwrap(), Ts::parse(TS).unwrap());
    ErasureFact { team: team(), scope, until: Ts::parse("1800000000.000000").unwrap() }
}

/// Erases the message in C01, and the file if it is the last that shares it.
async fn erase(archive: &dyn Archive, files: &dyn Files) -> Result<(), PortError> {
    eraser::erase(archive, files, &[fact()], EraserMode::Act).await.map(drop)
}

/// Runs a job during which the message is erased at this step. Returns whether the job had that many steps.
async fn erased_at(step: u64, slack: &MockServer, fixture: &DownloaderFixture, job: &Delivery) -> bool {
    let (archive, files) = (Arc::clone(&fixture.archive), fixture.files.clone());
    let at = ActionAtStep::new(step, async move {
        let runtime = Handle::current();
        let erasing = move || runtime.block_on(erase(&*archive, &files));
        spawn_blocking(erasing).await.unwrap().unwrap();
    });
    let downloader = downloader(slack, fixture, at.stores(fixture));
    let job_done = downloader.handle(std::slice::from_ref(job)).await;
    assert!(matches!(job_done[..], [JobOutcome::Done | JobOutcome::Retry(_)]), "step {step}: {job_done:?}");
    at.ended().await
}

fn downloader(slack: &MockServer, fixture: &DownloaderFixture, stores: Stores) -> Arc<FileDownloader> {
    let tokens = Tokens::one(BotToken::parse(TOKEN).unwrap());
    worker(&slack.uri(), stores, fixture.another_claimant("erased"), tokens, settings())
}

/// Two messages that share a file, which is downloaded for the first; and the job of the second.
async fn two_shares(slack: &MockServer) -> (DownloaderFixture, Delivery) {
    let fixture = DownloaderFixture::for_slack(slack);
    let object = fixture.file("F01", json!({}));
    let (first, second) = (fixture.share("C01", &object).await, fixture.share("C02", &object).await);
    assert_eq!(fixture.handle(&first).await, JobOutcome::Done);
    (fixture, second)
}

/// Asserts that the file is stored at the address that the message in C02 has.
async fn assert_held(fixture: &DownloaderFixture, context: &str) {
    let shown = fixture.in_channel("C02").await["files_s3"].clone();
    let stored_keys: Vec<String> = fixture.files.published().into_keys().map(|key| key.to_string()).collect();
    assert_eq!(shown, json!(stored_keys), "{context}");
    assert_eq!(fixture.stored_bytes(), [b"hello"], "{context}");
    assert_eq!(fixture.row("F01").await["state"], "held", "{context}");
    assert!(fixture.archive.item(&message("C01")).unwrap().is_erased(), "{context}");
    assert_eq!(fixture.archive.item(&ItemKey::unshared_file(&team(), &file())), None, "{context}");
}

#[tokio::test]
async fn a_message_that_starts_to_share_a_file_during_an_erasure_gets_it() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    info(&slack, &json!({ "ok": true, "file": DownloaderFixture::for_slack(&slack).file("F01", json!({})) }))
        .await;
    for step in 0.. {
        let (fixture, second) = two_shares(&slack).await;
        let within = erased_at(step, &slack, &fixture, &second).await;
        fixture.run_until_done(&Delivery { receive_count: 2, ..second }).await;
        assert_held(&fixture, &format!("erased at step {step}")).await;
        if !within {
            assert!(step > 2, "{step} steps");
            break;
        }
    }
    for step in 0.. {
        let (fixture, second) = two_shares(&slack).await;
        let other_worker = fixture.another_worker(fixture.another_claimant("erased"));
        let job = second.clone();
        let at = ActionAtStep::new(step, async move {
            assert_eq!(
                other_worker.handle(std::slice::from_ref(&job)).await,
                [JobOutcome::Done],
                "step {step}"
            );
        });
        let (archive, files) = at.stores(&fixture);
        erase(&*archive, &*files).await.unwrap();
        let within = at.ended().await;
        fixture.run_until_done(&Delivery { receive_count: 2, ..second }).await;
        assert_held(&fixture, &format!("shared at step {step}")).await;
        if !within {
            assert!(step > 10, "{step} steps");
            break;
        }
    }
}

#[tokio::test]
async fn a_message_that_starts_to_share_a_file_after_its_eraser_died_gets_it() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    for step in 0.. {
        let (fixture, second) = two_shares(&slack).await;
        let point = CrashPoint::after(step);
        let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), Arc::clone(&point));
        let files = FaultyFiles::with_crash_point(Arc::new(fixture.files.clone()), Arc::clone(&point));
        let died = erase(&archive, &files).await;
        fixture.run_until_done(&second).await;
        erase(&*fixture.archive, &fixture.files).await.unwrap();
        assert_held(&fixture, &format!("died at step {step}")).await;
        if died.is_ok() {
            assert!(step > 10, "{step} steps");
            break;
        }
    }
}

#[tokio::test]
async fn a_file_stored_while_its_message_is_erased_is_deleted_again() {
    let slack = slack().await;
    bytes(&slack, "F01", b"<p>MARKER").await;
    let canvas = json!({ "mode": "quip", "updated": 1_700_000_000 });
    let object = DownloaderFixture::for_slack(&slack).file("F01", canvas.clone());
    info(&slack, &json!({ "ok": true, "file": object })).await;
    for fields in [json!({}), canvas] {
        stored_while_its_message_is_erased(&slack, &fields).await;
    }
}

async fn stored_while_its_message_is_erased(slack: &MockServer, fields: &Value) {
    for step in 0.. {
        let fixture = DownloaderFixture::for_slack(slack);
        let job = fixture.share("C01", &fixture.file("F01", fields.clone())).await;
        let within = erased_at(step, slack, &fixture, &job).await;
        assert_eq!(fixture.stored_bytes(), Vec::<Vec<u8>>::new(), "step {step}");
        assert_eq!(fixture.row("F01").await, Value::Null, "step {step}");
        assert_eq!(fixture.archive.item(&ItemKey::unshared_file(&team(), &file())), None, "step {step}");
        assert_eq!(fixture.archive.item(&ItemKey::canvas_text(&team(), &file())), None, "step {step}");
        // The job is redelivered.
        assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
        assert_eq!((fixture.stored_bytes().len(), fixture.row("F01").await), (0, Value::Null), "step {step}");
        if !within {
            assert!(step > 5, "a job has more than {step} steps");
            break;
        }
    }
}

#[tokio::test]
async fn the_job_of_an_erased_message_deletes_what_a_killed_attempt_stored() {
    let slack = slack().await;
    bytes(&slack, "F01", b"<p>MARKER").await;
    // Slack has a later version of a canvas than the message names.
    let canvas = |updated: u64| json!({ "mode": "quip", "updated": updated });
    let current = DownloaderFixture::for_slack(&slack).file("F01", canvas(1_700_000_100));
    info(&slack, &json!({ "ok": true, "file": current })).await;
    for fields in [json!({}), canvas(1_700_000_000), json!({ "url_private": null })] {
        let mut stored = 0;
        for step in 0.. {
            let fixture = DownloaderFixture::for_slack(&slack);
            let job = fixture.share("C01", &fixture.file("F01", fields.clone())).await;
            let point = CrashPoint::after(step);
            let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), Arc::clone(&point));
            let files = FaultyFiles::with_crash_point(Arc::new(fixture.files.clone()), Arc::clone(&point));
            let dying = downloader(&slack, &fixture, (Arc::new(archive), Arc::new(files)));
            dying.handle(std::slice::from_ref(&job)).await;
            stored += fixture.stored_bytes().len();
            erase(&*fixture.archive, &fixture.files).await.unwrap();
            fixture.run_until_done(&Delivery { receive_count: 2, ..job }).await;
            assert_eq!(fixture.stored_bytes(), Vec::<Vec<u8>>::new(), "{fields}, step {step}");
            assert_eq!(fixture.row("F01").await, Value::Null, "{fields}, step {step}");
            let text = ItemKey::canvas_text(&team(), &file());
            assert_eq!(fixture.archive.item(&text), None, "{fields}, step {step}");
            if !point.has_crashed() {
                assert!(step > 5 && stored > 2, "{step} steps, {stored} with bytes");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_another_message_shares_stays() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    for step in 0.. {
        let fixture = DownloaderFixture::for_slack(&slack);
        let object = fixture.file("F01", json!({}));
        let (job, other) = (fixture.share("C01", &object).await, fixture.share("C02", &object).await);
        assert_eq!(fixture.handle(&other).await, JobOutcome::Done);
        let within = erased_at(step, &slack, &fixture, &job).await;
        assert_eq!(fixture.stored_bytes(), [b"hello"], "step {step}");
        assert_eq!(fixture.in_channel("C02").await["files_s3"].as_array().unwrap().len(), 1);
        assert_eq!(fixture.row("F01").await["state"], "held");
        if !within {
            assert!(step > 2, "a job has more than {step} steps");
            break;
        }
    }
}

#[tokio::test]
async fn the_job_of_an_erased_message_deletes_the_file_of_an_earlier_attempt() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    let share = (ChannelId::parse("C01").unwrap(), Ts::parse(TS).unwrap());
    let mut writer =
        fixture.files.create(&FileKey::shared(&team(), &share.0, &share.1, &file())).await.unwrap();
    writer.write(b"hello".as_slice().into()).await.unwrap();
    writer.publish().await.unwrap();
    fixture.archive.erase(&message("C01")).await.unwrap();
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    assert_eq!(fixture.stored_bytes().len(), 0);
}

#[tokio::test]
async fn a_file_covered_by_an_erasure_fact_is_not_fetched() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    let scope = ErasureScope::User(UserId::parse("U01").unwrap());
    let fact = ErasureFact { team: team(), scope, until: Ts::parse("1800000000.000000").unwrap() };
    fixture.archive.write(&fact.update()).await.unwrap();
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    assert_eq!((fixture.stored_bytes().len(), fixture.row("F01").await), (0, Value::Null));
    assert_eq!(super::fixture::downloads(&slack).await.len(), 0);
}

//! A message or a person that is erased while a file or a picture of theirs is fetched.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveExt, ErasureFact, ErasureScope, ItemKey};
use ports::files::{FileKey, Files};
use ports::queue::Delivery;
use rules::file::row;
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, Ts, UserId};
use slack_api::{Token, Tokens};
use testkit::faults::{Fault, FaultSchedule, FaultyArchive, FaultyFiles, Method};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use wiremock::MockServer;
use workers::runtime::{Outcome, Worker};

use super::fixture::{Fixture, TOKEN, TS, bytes, settings, slack, team, worker};

/// Erases at one step, as those do who erase: the message, then what its file's row names, then that row.
struct ErasesAt {
    step: u64,
    steps: AtomicU64,
    archive: Arc<MemoryArchive>,
    files: MemoryFiles,
}

#[async_trait]
impl FaultSchedule for ErasesAt {
    async fn before(&self, _: Method, _: usize) -> Option<Fault> {
        if self.steps.fetch_add(1, Ordering::SeqCst) == self.step {
            erase(&self.archive, &self.files).await;
        }
        None
    }

    async fn after(&self, _: Method) {}
}

fn message(channel: &str) -> ItemKey {
    ItemKey::message(&team(), &ChannelId::parse(channel).unwrap(), &Ts::parse(TS).unwrap())
}

fn file() -> FileId {
    FileId::parse("F01").unwrap()
}

async fn erase(archive: &MemoryArchive, files: &MemoryFiles) {
    archive.erase(&message("C01")).await.unwrap();
    let Some(row) = archive.item(&ItemKey::file(&team(), &file())) else { return };
    let others = row::shares(&row).any(|share| share.channel.as_str() != "C01");
    if !others {
        archive.erase(&row.key).await.unwrap();
        let keys: BTreeSet<FileKey> = row::keys(&row, &file());
        for key in &keys {
            files.delete(key).await.unwrap();
        }
    }
}

/// Does a job in which the message is erased at this step; answers whether it had as many.
async fn erased_at(step: u64, slack: &MockServer, fixture: &Fixture, job: &Delivery) -> bool {
    let schedule = Arc::new(ErasesAt {
        step,
        steps: AtomicU64::new(0),
        archive: Arc::clone(&fixture.archive),
        files: fixture.files.clone(),
    });
    let as_schedule = || Arc::clone(&schedule) as Arc<dyn FaultSchedule>;
    let archive = FaultyArchive::on(Arc::clone(&fixture.archive) as Arc<dyn Archive>, as_schedule());
    let files = FaultyFiles::on(Arc::new(fixture.files.clone()), as_schedule());
    let tokens = Tokens::one(Token::parse(TOKEN).unwrap());
    let stores = (Arc::new(archive) as Arc<dyn Archive>, Arc::new(files) as Arc<dyn Files>);
    let downloader = worker(&slack.uri(), stores, fixture.another("erased"), tokens, settings());
    assert_eq!(downloader.handle(std::slice::from_ref(job)).await, [Outcome::Done], "step {step}");
    let steps = schedule.steps.load(Ordering::SeqCst);
    if steps <= step {
        erase(&fixture.archive, &fixture.files).await;
    }
    steps > step
}

#[tokio::test]
async fn what_is_stored_while_its_message_is_erased_goes_again() {
    let slack = slack().await;
    bytes(&slack, "F01", b"MARKER").await;
    let mut step = 0;
    loop {
        let fixture = Fixture::of(&slack);
        let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
        let within = erased_at(step, &slack, &fixture, &job).await;
        assert_eq!(fixture.held(), Vec::<Vec<u8>>::new(), "step {step}");
        assert_eq!(fixture.row("F01").await, Value::Null, "step {step}");
        // Its job comes again.
        assert_eq!(fixture.handle(&job).await, Outcome::Done);
        assert_eq!((fixture.held().len(), fixture.row("F01").await), (0, Value::Null), "step {step}");
        if !within {
            break;
        }
        step += 1;
    }
    assert!(step > 5, "a job has more than {step} steps");
}

#[tokio::test]
async fn a_file_that_another_message_shares_stays() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    let mut step = 0;
    loop {
        let fixture = Fixture::of(&slack);
        let object = fixture.file("F01", json!({}));
        let (job, other) = (fixture.share("C01", &object).await, fixture.share("C02", &object).await);
        assert_eq!(fixture.handle(&other).await, Outcome::Done);
        let within = erased_at(step, &slack, &fixture, &job).await;
        assert_eq!(fixture.held(), [b"hello"], "step {step}");
        assert_eq!(fixture.in_channel("C02").await["files_s3"].as_array().unwrap().len(), 1);
        assert_eq!(fixture.row("F01").await["state"], "held");
        if !within {
            break;
        }
        step += 1;
    }
    assert!(step > 2, "a job has more than {step} steps");
}

#[tokio::test]
async fn the_job_of_an_erased_message_removes_what_an_earlier_attempt_stored() {
    let slack = slack().await;
    let fixture = Fixture::of(&slack);
    bytes(&slack, "F01", b"hello").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    let share = (ChannelId::parse("C01").unwrap(), Ts::parse(TS).unwrap());
    let mut writer =
        fixture.files.create(&FileKey::shared(&team(), &share.0, &share.1, &file())).await.unwrap();
    writer.write(b"hello".as_slice().into()).await.unwrap();
    writer.publish().await.unwrap();
    fixture.archive.erase(&message("C01")).await.unwrap();
    assert_eq!(fixture.handle(&job).await, Outcome::Done);
    assert_eq!(fixture.held().len(), 0);
}

#[tokio::test]
async fn what_a_fact_covers_is_not_fetched() {
    let slack = slack().await;
    let fixture = Fixture::of(&slack);
    bytes(&slack, "F01", b"hello").await;
    let scope = ErasureScope::User(UserId::parse("U01").unwrap());
    let fact = ErasureFact { team: team(), scope, until: Ts::parse("1800000000.000000").unwrap() };
    fixture.archive.write(&fact.update()).await.unwrap();
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    assert_eq!(fixture.handle(&job).await, Outcome::Done);
    assert_eq!((fixture.held().len(), fixture.row("F01").await), (0, Value::Null));
    assert_eq!(super::fixture::downloads(&slack).await.len(), 0);
}

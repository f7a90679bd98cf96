//! A canvas that is shared in two channels and edited twice: readers see its newest version, whichever job stores
//! its version last.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ports::archive::{Archive, Item, ItemKey};
use ports::claims::Claims;
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::files::FileKey;
use ports::queue::{Delivery, Queue, QueueName};
use proptest::prelude::*;
use rules::project;
use serde_json::{Value, json};
use slack::ids::{FileId, TeamId};
use slack_api::transport::{SlackRequest, SlackResponse, Transport};
use slack_api::{ApiUrl, BotToken, Tokens, WebApi};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::{delivery, receive_visible};
use testkit::fake_slack::{self, SlackAnswer};
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::claims::{ClaimSettings, Claimant};
use workers::file_downloader::{DownloadSettings, FileDownloader};
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::{DisorderedInputs, check_property, disordered, only_in};

const FILE: &str = "F01";
const TS: &str = "1700000000.000100";

/// The second of a version's edit.
fn edited_s(version: u64) -> u64 {
    1_700_000_000 + version * 100
}

/// The canvas as Slack has it at a version.
fn object(version: u64) -> Value {
    json!({ "id": FILE, "name": format!("Plan {version}"), "mode": "quip", "filetype": "quip", "size": 7,
        "mimetype": "application/vnd.slack-docs", "updated": edited_s(version),
        "url_private": format!("https://files.slack.com/files-pri/{TEAM}-{FILE}/plan") })
}

/// A Slack that has only the canvas, at one version.
struct CanvasSlack(AtomicU64);

impl fmt::Debug for CanvasSlack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CanvasSlack")
    }
}

#[async_trait]
impl Transport for CanvasSlack {
    async fn send_request(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        let version = self.0.load(Ordering::Relaxed);
        let answer = match question.url.path() {
            "/api/auth.test" => {
                SlackAnswer::new(200).with_body(json!({ "ok": true, "team_id": TEAM }).to_string())
            }
            "/api/files.info" => {
                SlackAnswer::new(200).with_body(json!({ "ok": true, "file": object(version) }).to_string())
            }
            _ => SlackAnswer::new(200)
                .with_header("content-type", "text/html")
                .with_body(format!("<!DOCTYPE html><html><body><p>text {version}</p></body></html>")),
        };
        Ok(fake_slack::response(answer))
    }
}

/// An event about the canvas when it had a version.
#[derive(Debug, Clone)]
enum CanvasStep {
    Shared { channel: &'static str, version: u64 },
    Edited { version: u64 },
}

/// A step, and the version that Slack shows to the job that follows: that of the step, or a later one.
type CanvasInput = (CanvasStep, u64);

fn delivered() -> impl Strategy<Value = DisorderedInputs<CanvasInput>> {
    let inputs = (1..4u64, 0..2u64).prop_map(|(shared, later)| {
        vec![
            (CanvasStep::Edited { version: 2 }, 2 + later),
            (CanvasStep::Edited { version: 3 }, 3),
            (CanvasStep::Shared { channel: "C02", version: shared }, 3),
        ]
    });
    disordered(inputs)
}

/// The stores of a fleet, which outlive its processes.
struct Stores {
    archive: Arc<MemoryArchive>,
    files: MemoryFiles,
    claims: Arc<MemoryClaims>,
    queue: Arc<MemoryQueue>,
    clock: Arc<ManualClock>,
    slack: Arc<CanvasSlack>,
}

impl Stores {
    fn new() -> Self {
        let clock = ManualClock::starting_at(TimestampMs(1_700_001_000_000));
        Self {
            archive: Arc::new(MemoryArchive::new()),
            files: MemoryFiles::new(),
            claims: Arc::new(MemoryClaims::new(clock.clone())),
            queue: Arc::new(MemoryQueue::new(clock.clone())),
            slack: Arc::new(CanvasSlack(AtomicU64::new(1))),
            clock,
        }
    }

    /// Handles an event and the jobs that follow, in processes that crash after these numbers of steps.
    async fn handle(&self, id: &str, (step, shown): &CanvasInput, lives: &mut impl Iterator<Item = u64>) {
        let event = match step {
            CanvasStep::Shared { channel, version } => {
                let message = event::message(TS, "U01", "look");
                event::posted(channel, &event::with_fields(message, [("files", json!([object(*version)]))]))
            }
            CanvasStep::Edited { version } => {
                let clock = format!("{}.000100", edited_s(*version));
                json!({ "type": "file_change", "file_id": FILE, "file": { "id": FILE }, "event_ts": clock })
            }
        };
        let delivery = delivery(&event::envelope(TEAM, id, &event));
        let archive = || Arc::clone(&self.archive) as Arc<dyn Archive>;
        let writer = MessageWriter::new(archive(), self.queue.clone());
        assert_eq!(writer.handle(&[delivery]).await, [JobOutcome::Done], "{event}");
        self.slack.0.store(*shown, Ordering::Relaxed);
        for job in receive_visible(&*self.queue, QueueName::Files).await {
            for receive_count in 1.. {
                let point = lives.next().map_or_else(CrashPoint::never, CrashPoint::after);
                let mortal = Arc::new(FaultyArchive::with_crash_point(archive(), Arc::clone(&point)));
                let attempt = Delivery { receive_count, ..job.clone() };
                match self.downloader(mortal, receive_count).handle(&[attempt]).await.remove(0) {
                    JobOutcome::Done if !point.has_crashed() => break,
                    // The claim of a process that died ends.
                    JobOutcome::Retry(retry) => self.clock.advance(retry.after.unwrap_or_default()),
                    other @ (JobOutcome::Done | JobOutcome::Wait(..) | JobOutcome::Quarantine(_)) => {
                        assert!(point.has_crashed(), "{other:?}");
                    }
                }
            }
            // If its lease has ended meanwhile, the job comes again.
            drop(self.queue.ack(QueueName::Files.into(), &[job.receipt]).await);
        }
    }

    fn downloader(&self, archive: Arc<dyn Archive>, number: u32) -> FileDownloader {
        let tokens = Tokens::one(BotToken::parse("xoxb-1").unwrap());
        let web = WebApi::with_transport(self.slack.clone(), ApiUrl::default(), tokens);
        let (claims, clock) = (self.claims.clone() as Arc<dyn Claims>, self.clock.clone() as SharedClock);
        let claimant = Claimant::new(claims, clock, format!("process {number}"), ClaimSettings::default());
        let settings = DownloadSettings { file_tries: 1_000, ..DownloadSettings::default() };
        FileDownloader::new(archive, Arc::new(self.files.clone()), Arc::new(web), claimant, settings)
    }

    /// The canvas as readers see it, without the versions before the newest; and every other row without the
    /// key under which the newest version is stored, which names the job that stored it.
    fn seen(&self) -> (Value, Vec<Item>) {
        let (team, file) = (TeamId::parse(TEAM).unwrap(), FileId::parse(FILE).unwrap());
        let key = ItemKey::file(&team, &file);
        let mut canvas = project::file(&self.archive.item(&key).unwrap()).unwrap().into_json();
        let key_of = |value: &Value| FileKey::parse(value.as_str().unwrap()).unwrap();
        let bytes: BTreeMap<FileKey, String> = self
            .files
            .published()
            .into_iter()
            .map(|(key, bytes)| (key, String::from_utf8(bytes.to_vec()).unwrap()))
            .collect();
        let versions = canvas["versions"].take();
        let versions = versions.as_array().unwrap();
        let edits: Vec<u64> = versions.iter().map(|version| version["updated"].as_u64().unwrap()).collect();
        assert!(
            edits.is_sorted() && edits.iter().all(|edit| (1..=3).any(|version| edited_s(version) == *edit))
        );
        let newest = versions.last().unwrap();
        assert_eq!(newest["uri"], canvas["uri"]);
        canvas["versions"] = json!([newest["updated"], bytes[&key_of(&newest["uri"])]]);
        canvas["uri"] = Value::Null;
        let mut rows = MemoryArchive::items(&self.archive);
        rows.retain(|row| row.key != key);
        for row in &mut rows {
            row.attributes.retain(|name, _| !name.starts_with("file#"));
        }
        (canvas, rows)
    }
}

#[test]
fn any_order_of_the_edits_of_a_canvas_shows_its_newest_version() {
    let first = (CanvasStep::Shared { channel: "C01", version: 1 }, 1);
    check_property(600, &delivered(), async |delivered| {
        let (one, other) = (Stores::new(), Stores::new());
        one.handle("EvFirst", &first, &mut std::iter::empty()).await;
        for (number, input) in delivered.inputs.iter().enumerate() {
            one.handle(&format!("Ev{number}"), input, &mut std::iter::empty()).await;
        }
        let mut lives = delivered.lives.iter().copied();
        other.handle("EvFirst", &first, &mut lives).await;
        for (index, number) in delivered.order.iter().enumerate() {
            let id = format!("Ev{number}x{index}");
            other.handle(&id, &delivered.inputs[*number], &mut lives).await;
        }
        let ((expected, expected_rows), (found, found_rows)) = (one.seen(), other.seen());
        let newest = "<!DOCTYPE html><html><body><p>text 3</p></body></html>";
        prop_assert_eq!(&expected["versions"], &json!([edited_s(3), newest]));
        prop_assert_eq!(expected, found);
        prop_assert_eq!(only_in(&expected_rows, &found_rows), only_in(&found_rows, &expected_rows));
        Ok(())
    });
}

//! Jobs of the file-downloader: one per file and message.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::object::{FileObject, edit_time};
use super::row::{self, Share};
use crate::message::Content;
use crate::{Malformed, read_job};
use ports::archive::Item;
use ports::files::FileKey;
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

/// The maximum number of files of one message that are processed: ten times what Slack's own clients attach.
const MAX_FILES: usize = 100;

/// A file to be downloaded, for one message that shares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileJob {
    pub team: TeamId,
    /// The message that shares it.
    #[serde(flatten)]
    pub share: Share,
    /// The user who shared it there, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// The file object in that message.
    pub object: FileObject,
    /// Whether the object may be outdated: then Slack is asked for it again before the download.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refresh: bool,
    /// The name of the version that this job creates, if it is not made from the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The file-downloader's jobs for a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// To be sent once the message is written.
    pub sends: Vec<Outgoing>,
    /// The number of files without a valid id or beyond the limit.
    pub skipped: usize,
}

/// The jobs of the files in a version of a message.
pub fn jobs(content: &Content) -> Jobs {
    jobs_unless(content, |_| false)
}

/// The jobs of the files in a version of a message, except those for which `is_settled` returns true.
pub fn jobs_unless(content: &Content, is_settled: impl Fn(&FileId) -> bool) -> Jobs {
    let update = content.if_absent();
    let id = |name: &str| update.set_if_absent.get(name).and_then(Value::as_str).unwrap_or_default();
    let files = update.set.get("files").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // Most messages have no files: do not parse their ids.
    if files.is_empty() {
        return Jobs::default();
    }
    let ids = (TeamId::parse(id("team_id")), ChannelId::parse(id("channel_id")), Ts::parse(id("ts")));
    let (Ok(team), Ok(channel), Ok(ts)) = ids else {
        return Jobs { sends: Vec::new(), skipped: files.len() };
    };
    let share = Share { channel, ts };
    let user = update.set.get("user").and_then(Value::as_str).and_then(|user| UserId::parse(user).ok());
    let objects: Vec<FileObject> = files.iter().take(MAX_FILES).filter_map(FileObject::read).collect();
    let skipped = files.len() - objects.len();
    let job = |object| {
        let (team, share, user) = (team.clone(), share.clone(), user.clone());
        FileJob { team, share, user, object, refresh: false, version: None }.outgoing()
    };
    let sends = objects.into_iter().filter(|object| !is_settled(&object.id)).map(job).collect();
    Jobs { sends, skipped }
}

/// The job that downloads again a file that is not stored, given its row. The nonce distinguishes this
/// attempt from others. `None` if the row lacks the object or a share of the file.
pub fn retry_job(team: &TeamId, row: &Item, nonce: &[u8]) -> Option<Outgoing> {
    let object = row::object(row)?;
    let updated_s = object.updated.and_then(|updated| i64::try_from(updated).ok()).unwrap_or_default();
    Some(job_again(team, row::shares(row).next()?, object, updated_s, nonce))
}

/// The job that downloads the current version of a canvas for a message that shares it, given its row, after
/// an event with this clock and id. `None` if the file is not a canvas.
pub fn changed_job(team: &TeamId, row: &Item, share: Share, clock: &Ts, event_id: &[u8]) -> Option<Outgoing> {
    let object = row::object(row).filter(FileObject::is_canvas)?;
    Some(job_again(team, share, object, clock.micros() / 1_000_000, event_id))
}

/// The job that downloads the current version of a file. Slack knew of this version at the given second; the
/// versions of a message's files sort by it.
fn job_again(team: &TeamId, share: Share, object: FileObject, at_s: i64, nonce: &[u8]) -> Outgoing {
    let dedup =
        DedupId::from_parts(&[b"file again", team.as_str().as_bytes(), object.id.as_str().as_bytes(), nonce]);
    let version = Some(format!("{at_s:012}.{}", &dedup.to_hex()[..8]));
    let job = FileJob { team: team.clone(), share, user: None, object, refresh: true, version };
    Outgoing { dedup, ..job.outgoing() }
}

/// The job that marks a file as deleted in Slack on the messages that share it, given its row and one of them.
/// `None` if the row has no valid key.
pub fn deletion_job(team: &TeamId, row: &Item, share: Share) -> Option<Outgoing> {
    let object = FileObject::read(&json!({ "id": row.key.timestamp, "mode": "tombstone" }))?;
    Some(FileJob { team: team.clone(), share, user: None, object, refresh: false, version: None }.outgoing())
}

impl FileJob {
    /// The key of the bytes that this job stores if the file has other versions. It depends on the job alone.
    pub fn version_key(&self) -> FileKey {
        let Self { team, share: Share { channel, ts }, object, version, .. } = self;
        let key = FileKey::shared(team, channel, ts, &object.id);
        let fingerprint = object.fingerprint();
        let name = match (version, object.updated) {
            (Some(version), _) => version.clone(),
            (None, Some(updated)) => format!("{}.{}", edit_time(updated), &fingerprint[..8]),
            (None, None) => fingerprint[..8].to_owned(),
        };
        key.version(&name).unwrap_or(key)
    }

    /// The job as a message.
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, share: Share { channel, ts }, object, .. } = self;
        let parts =
            ["file", team.as_str(), channel.as_str(), ts.as_str(), object.id.as_str(), &object.fingerprint()];
        Outgoing {
            queue: QueueName::Files,
            group: GroupId::from_parts(&[team.as_str(), object.id.as_str()]),
            dedup: DedupId::from_parts(&parts.map(str::as_bytes)),
            body: encode_job("file", self),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        read_job("file", raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;
    use crate::fixture::with_event;
    use ports::queue::MAX_MESSAGE_BYTES;
    use ports::queue::job::{Job, Payload};

    fn jobs_of(event: Value) -> Jobs {
        let changes = with_event(event, |event| event.changes()).unwrap();
        let mut all = Jobs::default();
        for change in &changes {
            let Change::Content(content) = change else { continue };
            let Jobs { sends, skipped } = jobs(content);
            all.sends.extend(sends);
            all.skipped += skipped;
        }
        all
    }

    fn message(files: Value) -> Value {
        json!({ "type": "message", "channel": "C1", "channel_type": "channel", "ts": "1700000001.000000", "user": "U1", "files": files })
    }

    fn decoded(outgoing: &Outgoing) -> FileJob {
        let Payload::File(raw) = Job::decode(&outgoing.body).unwrap().payload else { panic!("{outgoing:?}") };
        FileJob::decode(raw).unwrap()
    }

    #[test]
    fn each_file_of_a_message_is_a_job_in_its_own_group() {
        let jobs = jobs_of(message(json!([
            { "id": "F1", "name": "a.png", "url_private": "https://files.slack.com/1" },
            { "name": "without an id" }, { "id": "../F" }, 7,
            { "id": "F2", "mode": "tombstone" },
        ])));
        assert_eq!(jobs.skipped, 3);
        let groups: Vec<&str> = jobs.sends.iter().map(|send| send.group.as_str()).collect();
        assert_eq!(groups, ["T1#F1", "T1#F2"]);
        let job = decoded(&jobs.sends[0]);
        assert_eq!(
            (job.share.channel.as_str(), job.share.ts.as_str(), job.refresh),
            ("C1", "1700000001.000000", false)
        );
        assert_eq!(job.object.name.as_deref(), Some("a.png"));
        assert_eq!((job.user.as_ref().map(UserId::as_str), job.object.user), (Some("U1"), None));
        assert_ne!(jobs.sends[0].dedup, jobs.sends[1].dedup);
        assert_eq!(jobs_of(message(json!([]))), Jobs::default());
    }

    #[test]
    fn a_file_of_a_forwarded_message_is_a_job_for_the_message_that_forwards_it() {
        let mut forward = message(json!([]));
        forward["attachments"] =
            json!([{ "author_id": "U2", "files": [{ "id": "F1", "name": "a.pdf", "user": "U2" }] }]);
        let jobs = jobs_of(forward);
        let job = decoded(&jobs.sends[0]);
        assert_eq!((job.share.channel.as_str(), job.share.ts.as_str()), ("C1", "1700000001.000000"));
        assert_eq!(
            (job.user.as_ref().map(UserId::as_str), job.object.user.as_deref()),
            (Some("U1"), Some("U2"))
        );
        assert_eq!((jobs.sends.len(), jobs.skipped), (1, 0));
    }

    #[test]
    fn an_edit_makes_jobs_for_the_old_and_the_new_files_and_equal_jobs_if_they_are_the_same() {
        let with = |file: &str| json!({ "type": "message", "ts": "1700000001.000000", "user": "U1", "files": [{ "id": file }] });
        let edit = |before: &str, after: &str| {
            json!({ "type": "message", "subtype": "message_changed", "channel": "C1",
            "ts": "1700000002.000000", "event_ts": "1700000002.000000", "message": with(after), "previous_message": with(before) })
        };
        let groups = |jobs: &Jobs| jobs.sends.iter().map(|send| send.group.to_string()).collect::<Vec<_>>();
        assert_eq!(groups(&jobs_of(edit("F1", "F2"))), ["T1#F2", "T1#F1"]);
        let same = jobs_of(edit("F1", "F1"));
        assert_eq!(same.sends[0], same.sends[1]);
    }

    #[test]
    fn another_share_another_object_and_another_nonce_make_different_jobs() {
        let job = |channel: &str, name: &str| FileJob {
            team: TeamId::parse("T1").unwrap(),
            share: Share {
                channel: ChannelId::parse(channel).unwrap(),
                ts: Ts::parse("1700000001.000000").unwrap(),
            },
            user: None,
            object: FileObject::read(&json!({ "id": "F1", "name": name })).unwrap(),
            refresh: false,
            version: None,
        };
        let dedup = |channel: &str, name: &str| job(channel, name).outgoing().dedup;
        assert_eq!(dedup("C1", "a"), dedup("C1", "a"));
        assert_ne!(dedup("C1", "a"), dedup("C2", "a"));
        assert_ne!(dedup("C1", "a"), dedup("C1", "b"));

        let update = row::seen(&job("C1", "a").team, &job("C1", "a").object, Some(&job("C1", "a").share));
        let row = Item { key: update.key.clone(), attributes: update.apply(None).unwrap() };
        let retried = retry_job(&job("C1", "a").team, &row, b"1").unwrap();
        let version = decoded(&retried).version;
        assert_eq!(decoded(&retried), FileJob { refresh: true, version, ..job("C1", "a") });
        assert_ne!(retried.dedup, dedup("C1", "a"));
        assert_ne!(retried.dedup, retry_job(&job("C1", "a").team, &row, b"2").unwrap().dedup);
        // Workspaces that share a channel know a file by the same id.
        let elsewhere = TeamId::parse("T2").unwrap();
        assert_ne!(retried.dedup, retry_job(&elsewhere, &row, b"1").unwrap().dedup);
    }

    #[test]
    fn a_job_fits_a_message_even_if_the_object_has_very_long_texts() {
        let long = "\u{1}".repeat(100_000);
        let fields = ["name", "mimetype", "filetype", "mode", "external_type", "file_access", "user"];
        let mut file: Value =
            fields.iter().map(|name| ((*name).to_owned(), Value::from(long.as_str()))).collect();
        file["id"] = "F1".into();
        file["url_private"] = "x".repeat(4096).into();
        let jobs = jobs_of(message(Value::Array(vec![file; 9])));
        assert_eq!(jobs.sends.len(), 9);
        assert!(jobs.sends[0].body.len() < MAX_MESSAGE_BYTES / 32, "{}", jobs.sends[0].body.len());
        let many = jobs_of(message(Value::Array(vec![json!({ "id": "F1" }); 5_000])));
        assert_eq!((many.sends.len(), many.skipped), (MAX_FILES, 4_900));
    }

    #[test]
    fn a_job_with_missing_or_invalid_ids_is_malformed() {
        for body in [
            json!({}),
            json!([]),
            json!({ "team": "T1", "channel": "C1", "ts": "1700000001.000000", "object": { "id": "f" } }),
            json!({ "team": "t", "channel": "C1", "ts": "1700000001.000000", "object": { "id": "F1" } }),
            json!({ "team": "T1", "channel": "C1", "ts": "now", "object": { "id": "F1" } }),
        ] {
            let raw = RawValue::from_string(body.to_string()).unwrap();
            assert!(FileJob::decode(&raw).is_err(), "{body}");
        }
    }
}

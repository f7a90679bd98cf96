//! Generated messages for reports, and an archive that contains them.

use std::collections::BTreeSet;

use ports::archive::{ArchiveExt, ItemKey};
use rules::public_mark;
use serde_json::{Value, json};
use slack::ids::Ts;
use testkit::memory::archive::MemoryArchive;

use crate::fixture::{channel_id, person, set, team};

pub(super) const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
pub(super) const DAY: i64 = 86_400;
/// Monday of 2026-W46.
pub(super) const MONDAY: i64 = 1_794_182_400;

/// Ids and rows of the directory: a member, a guest, a person of another workspace, a deactivated person, an
/// app, and an unknown person.
pub(super) fn people() -> [(&'static str, Option<Value>); 6] {
    [
        (
            "U1",
            Some(json!({ "name": "ana", "tz": "Asia/Kathmandu", "tz_offset": 20_700, "raw_event": "{}" })),
        ),
        ("U2", Some(json!({ "name": "bo", "raw_event": r#"{"is_restricted":true}"# }))),
        ("U3", Some(json!({ "tz": "X", "tz_offset": -34_200, "raw_event": r#"{"team_id":"T2"}"# }))),
        ("U4", Some(json!({ "name": "di", "tz_offset": 3_600, "deleted": true, "raw_event": "{}" }))),
        ("U5", Some(json!({ "name": "app", "is_bot": true, "raw_event": "{}" }))),
        ("U6", None),
    ]
}

/// A generated message. Authors, mentions and reactions are indexes into [`people`]; `root` selects an
/// earlier message of the channel.
#[derive(Debug, Clone)]
pub(super) struct ModelMessage {
    pub(super) channel: usize,
    pub(super) second: i64,
    pub(super) author: usize,
    pub(super) kind: usize,
    pub(super) words: usize,
    pub(super) mentioned: BTreeSet<usize>,
    pub(super) reacted: BTreeSet<(bool, usize)>,
    pub(super) root: Option<usize>,
}

/// Messages with their timestamps, oldest first, and the indexes of their roots in the list.
pub(super) struct ReportModel {
    pub(super) messages: Vec<(ModelMessage, String)>,
    pub(super) roots: Vec<Option<usize>>,
}

impl ReportModel {
    pub(super) fn new(mut messages: Vec<ModelMessage>) -> Self {
        messages.sort_by_key(|message| message.second);
        let messages: Vec<(ModelMessage, String)> = messages
            .into_iter()
            .enumerate()
            .map(|(n, message)| {
                let ts = format!("{}.{n:06}", MONDAY - 14 * DAY + message.second);
                (message, ts)
            })
            .collect();
        let mut roots: Vec<Option<usize>> = Vec::new();
        for (n, (one, _)) in messages.iter().enumerate() {
            let before: Vec<usize> = (0..n)
                .filter(|other| {
                    let is_reply = roots[*other].is_some();
                    messages[*other].0.channel == one.channel && !is_reply && messages[*other].0.kind != 1
                })
                .collect();
            roots.push(one.root.filter(|_| !before.is_empty()).map(|root| before[root % before.len()]));
        }
        Self { messages, roots }
    }

    pub(super) async fn archive(&self) -> MemoryArchive {
        let archive = MemoryArchive::new();
        for channel in CHANNELS {
            archive.write(&public_mark::opening(&team(), &channel_id(channel))).await.unwrap();
        }
        for (id, row) in people() {
            if let Some(row) = row {
                person(&archive, id, row).await;
            }
        }
        for (n, (message, ts)) in self.messages.iter().enumerate() {
            let ts = Ts::parse(ts).unwrap();
            let mut row = json!({ "ts": ts, "user": people()[message.author].0, "raw_event": "{}",
                "content_version": format!("{}/{}/x", ts.padded(), ts.padded()) });
            let mentions = message.mentioned.iter().map(|person| format!("<@{}>", people()[*person].0));
            row["text"] = mentions
                .chain((0..message.words).map(|_| "word".to_owned()))
                .collect::<Vec<_>>()
                .join("\n")
                .into();
            match message.kind {
                0 => row["deleted"] = true.into(),
                1 => row["subtype"] = "channel_join".into(),
                2 => row["subtype"] = "file_share".into(),
                _ => {}
            }
            for (is_tada, person) in &message.reacted {
                let name = if *is_tada { "tada" } else { "eyes" };
                row[format!("reaction#{name}#{}", people()[*person].0)] = "000000000001.000000/added".into();
            }
            if let Some(root) = self.roots[n] {
                row["thread_ts"] = self.messages[root].1.as_str().into();
                row["parent"] = format!("thread#T1#{}", self.messages[root].1).into();
            }
            set(&archive, ItemKey::message(&team(), &channel_id(CHANNELS[message.channel]), &ts), row).await;
        }
        archive
    }
}

//! Tests of the import: its progress, its sums and the rows that it stores.

use std::io::{self, Read};
use std::sync::Arc;

use ports::archive::{Archive, ItemKey, Query, key, query_all};
use ports::clock::{ManualClock, TimestampMs};
use reader::directory;
use rules::file::{FileObject, FileState, row};
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::import::{
    ExportEntries, ExportEntry, FailedImport, FileTarget, ImportFiles, ImportNotice, ImportOptions,
    ImportProgress, ImportSum, ImportTarget, import,
};

/// An uncompressed export in memory.
struct ExportInMemory {
    entries: Vec<ExportEntry>,
    bytes: Vec<Vec<u8>>,
}

impl ExportEntries for ExportInMemory {
    fn entries(&self) -> &[ExportEntry] {
        &self.entries
    }

    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(&self.bytes[entry][..]))
    }
}

fn export(days: &[(&str, Value)], uploads: &[(&str, &str)]) -> Box<ExportInMemory> {
    let text = |value: Value| value.to_string();
    let lists = [
        ("users.json", text(json!([{ "id": "U1", "team_id": TEAM, "name": "ada" }]))),
        ("channels.json", text(json!([{ "id": "C1", "name": "general" }]))),
    ];
    let days = days.iter().map(|(name, day)| (*name, text(day.clone())));
    let uploads = uploads.iter().map(|(name, bytes)| (*name, (*bytes).to_owned()));
    let all = lists.into_iter().chain(days).chain(uploads);
    let (entries, bytes) = all
        .map(|(name, text)| {
            (
                ExportEntry {
                    name: name.to_owned(),
                    packed_bytes: text.len() as u64,
                    modified_s: Some(1_500_000_000),
                },
                text.into_bytes(),
            )
        })
        .unzip();
    Box::new(ExportInMemory { entries, bytes })
}

/// Imports an export. Returns the result and every progress notice.
async fn imported(
    export: Box<ExportInMemory>,
    archive: Arc<dyn Archive>,
) -> (Result<ImportSum, FailedImport>, Vec<ImportProgress>) {
    let queue = Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(0))));
    let files = ImportFiles::Imported(FileTarget { queue, files: Arc::new(MemoryFiles::new()) });
    let options = ImportOptions { team: None, tokens: None, now: TimestampMs(1_700_000_000_000) };
    let mut notices = Vec::new();
    let sum = import(export, &ImportTarget { archive, files }, &options, &mut |notice| {
        if let ImportNotice::Progress(progress) = notice {
            notices.push(progress);
        }
    })
    .await;
    (sum, notices)
}

fn day(messages: std::ops::Range<u64>) -> Value {
    messages.map(|n| event::message(&format!("{}.000100", 1_600_000_000 + n), "U1", "hi")).collect()
}

#[tokio::test]
async fn progress_counts_days_and_stored_files_and_reaches_its_end() {
    let shared = event::file_share("1600090000.000100", "U1", "see", &["F1"]);
    let days = [("general/2020-09-13.json", day(0..600)), ("general/2020-09-14.json", json!([shared]))];
    let days_bytes: u64 = days.iter().map(|(_, day)| day.to_string().len() as u64).sum();
    // No message shares the other one.
    let uploads = [("__uploads/F1/a.txt", "some bytes"), ("__uploads/F9/b.txt", "some more bytes")];
    let (sum, notices) = imported(export(&days, &uploads), Arc::new(MemoryArchive::new())).await;
    assert_eq!(sum.unwrap().messages, 601);
    let uploaded_bytes = "some bytes".len() as u64;
    let at = |bytes| ImportProgress { messages: 601, read_bytes: bytes, total_bytes: bytes };
    assert_eq!(notices[notices.len() - 2..], [at(days_bytes), at(days_bytes + uploaded_bytes)]);
    let is_growing = |pair: &[ImportProgress]| {
        pair[0].read_bytes <= pair[1].read_bytes && pair[0].messages <= pair[1].messages
    };
    assert!(notices.windows(2).all(is_growing), "{notices:?}");
    assert!(notices.iter().all(|progress| progress.read_bytes <= progress.total_bytes), "{notices:?}");
}

#[tokio::test]
async fn the_address_of_the_workspace_is_that_in_the_link_of_its_newest_file() {
    let shared = |second: u64, team: &str, host: &str| {
        let file = event::with_fields(
            event::file("F1", "U1"),
            [
                ("url_private", json!(format!("https://files.slack.com/files-pri/{team}-F1/a.png"))),
                ("permalink", json!(format!("https://{host}.slack.com/files/U1/F1/a.png"))),
            ],
        );
        let message = event::message(&format!("{second}.000100"), "U1", "look");
        event::with_fields(message, [("files", json!([file]))])
    };
    let messages = json!([
        shared(1_600_000_000, TEAM, "acme-inc"),
        shared(1_600_000_001, TEAM, "acme"),
        shared(1_600_000_002, "T0PARTNER", "partner"),
    ]);
    let archive = Arc::new(MemoryArchive::new());
    let days = [("general/2020-09-13.json", messages)];
    for _ in 0..2 {
        imported(export(&days, &[]), archive.clone()).await.0.unwrap();
        let team = TeamId::parse(TEAM).unwrap();
        let facts = directory::read_workspace_facts(&*archive, &team).await.unwrap();
        assert_eq!(facts.base_url.as_deref(), Some("https://acme.slack.com/"));
        let names = directory::read_shown_names(&*archive, std::slice::from_ref(&team)).await.unwrap();
        assert_eq!(names, [(team, "acme".to_owned())]);
    }
}

#[tokio::test]
async fn an_import_that_fails_reports_what_it_stored() {
    let days = [("general/2020-09-13.json", day(0..2_000))];
    let memory = Arc::new(MemoryArchive::new());
    // One batch of 512 messages is stored, and the next one fails.
    let archive = Arc::new(FaultyArchive::with_crash_point(memory.clone(), CrashPoint::after(1_400)));
    let (sum, _) = imported(export(&days, &[]), archive).await;
    let failed = sum.unwrap_err();
    assert!(failed.to_string().contains("import it again"), "{failed}");
    assert!((1..2_000).contains(&failed.sum.messages), "{:?}", failed.sum);
    assert_eq!(failed.sum.messages, failed.sum.new);
    let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse("C1").unwrap());
    let first = ItemKey::message(&team, &channel, &Ts::parse("1600000000.000100").unwrap());
    assert!(memory.get(&first).await.unwrap().is_some(), "the first batch stays stored");
}

#[tokio::test]
async fn logged_edits_and_deletions_become_versions_and_tombstones_and_not_messages() {
    let (first, second) = ("1600000000.000100", "1600000010.000100");
    let message = |text: &str| event::message(first, "U1", text);
    let steps = [("1600000100.000000", "second"), ("1600000200.000000", "third")];
    let edited = |at: usize| event::edited(&message("first"), steps[at].0, steps[at].1);
    let changed = |ts: &str, after: Value, name: &str, before: Value| json!({ "type": "message", "subtype": "message_changed", "hidden": true, "ts": ts, "message": after, name: before });
    let day = json!([
        edited(1),
        changed("1600000100.000100", edited(0), "original", message("first")),
        changed("1600000200.000100", edited(1), "previous_message", edited(0)),
        { "type": "message", "subtype": "message_deleted", "ts": "1600000300.000100", "deleted_ts": second,
            "previous_message": event::message(second, "U1", "gone") },
        event::message("1600000400.000100", "U1", "bye"),
    ]);
    let archive = Arc::new(MemoryArchive::new());
    let days = [("general/2020-09-13.json", day)];
    let (sum, _) = imported(export(&days, &[]), archive.clone()).await;
    let sum = sum.unwrap();
    assert_eq!((sum.new, sum.problems, sum.skipped), (3, 0, 0));

    let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse("C1").unwrap());
    let rows = query_all(&*archive, Query::partition(key::messages(&team, &channel))).await.unwrap();
    let stored: Vec<(&str, bool)> =
        rows.iter().map(|row| (row.text("text").unwrap(), row.has_flag("deleted"))).collect();
    assert_eq!(stored, [("third", false), ("gone", true), ("bye", false)]);
    let first = Ts::parse(first).unwrap();
    let revisions = key::revisions(&team, &channel, &first);
    let revisions = query_all(&*archive, Query::partition(revisions)).await.unwrap();
    let versions = rules::message::versions(&revisions, Some(&rows[0]));
    let before: Vec<&str> = versions.replaced.iter().map(|one| one.row.text("text").unwrap()).collect();
    assert_eq!(before, ["first", "second"]);

    let (again, _) = imported(export(&days, &[]), archive.clone()).await;
    let again = again.unwrap();
    assert_eq!((again.new, again.updated), (0, 0));
}

#[tokio::test]
async fn authors_that_no_list_has_are_named_by_their_messages_in_any_order() {
    let by = |second: u64, user: &str, profile: Value| {
        let message = event::message(&format!("{}.000100", 1_600_000_000 + second), user, "hi");
        event::with_fields(message, [("user_profile", profile), ("team", json!(null))])
    };
    let by_jira = event::with_fields(
        event::bot_message("1600000005.000100", "B0JIRA", "custom", "done"),
        [("bot_profile", json!({ "id": "B0JIRA", "name": "Jira Cloud" }))],
    );
    let eve = |name: &str| json!({ "name": name, "team": "T0OTHER" });
    let mut messages = vec![
        by(1, "U0EVE", eve("eva")),
        by(2, "U0EVE", eve("eve")),
        by(3, "U0EVE", json!(null)),
        by(4, "U1", eve("not ada")),
        by(6, "U0NOBODY", json!([])),
        by_jira,
    ];
    let mut stored: Vec<Vec<(String, Option<String>)>> = Vec::new();
    for _ in 0..2 {
        let archive = Arc::new(MemoryArchive::new());
        let days = [("general/2020-09-13.json", Value::from(messages.clone()))];
        for _ in 0..2 {
            imported(export(&days, &[]), archive.clone()).await.0.unwrap();
        }
        let team = TeamId::parse(TEAM).unwrap();
        let mut rows = Vec::new();
        for partition in [key::users(&team), key::bots(&team), key::organisations(&team)] {
            let items = query_all(&*archive, Query::partition(partition)).await.unwrap();
            rows.extend(
                items.iter().map(|item| (item.key.timestamp.clone(), item.text("name").map(str::to_owned))),
            );
        }
        stored.push(rows);
        messages.reverse();
    }
    let names: Vec<(&str, Option<&str>)> =
        stored[0].iter().map(|(id, name)| (id.as_str(), name.as_deref())).collect();
    assert_eq!(
        names,
        [
            ("U0EVE", Some("eve")),
            ("U0NOBODY", None),
            ("U1", Some("ada")),
            ("B0JIRA", Some("Jira Cloud")),
            ("T0OTHER", None)
        ]
    );
    assert_eq!(stored[0], stored[1]);
}

#[tokio::test]
async fn files_next_to_the_days_of_a_channel_are_stored_if_their_length_matches() {
    let file = |id: &str, size: usize| {
        let path = format!("attachments/{id}-a.txt");
        json!({ "id": id, "name": "a.txt", "size": size, "url_private": path, "url_private_download": path })
    };
    let shared = event::message("1600000000.000100", "U1", "see");
    let shared = event::with_fields(shared, [("files", json!([file("F1", 10), file("F2", 11)]))]);
    let days = [("general/2020-09-13.json", json!([shared]))];
    let uploads =
        [("general/attachments/F1-a.txt", "some bytes"), ("general/attachments/F2-a.txt", "some bytes")];
    let archive = Arc::new(MemoryArchive::new());
    let (sum, _) = imported(export(&days, &uploads), archive.clone()).await;
    let sum = sum.unwrap();
    // The file of another length is requested from Slack.
    assert_eq!((sum.messages, sum.files, sum.problems), (1, 2, 0));

    let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse("C1").unwrap());
    let message = ItemKey::message(&team, &channel, &Ts::parse("1600000000.000100").unwrap());
    let message = archive.get(&message).await.unwrap().unwrap();
    let state = |id: &str| row::state(&message, &FileId::parse(id).unwrap());
    assert!(matches!(state("F1"), Some(FileState::Stored(_))), "{message:?}");
    assert_eq!(state("F2"), None);
    assert!(!message.attributes["raw_event"].as_str().unwrap().contains("attachments/"));

    // An event with the same file and its address at Slack needs no second download.
    let url = format!("https://files.slack.com/files-pri/{TEAM}-F1/a.txt");
    let own = json!({ "id": "F1", "size": 10, "url_private": url });
    let file_row = archive.get(&ItemKey::file(&team, &FileId::parse("F1").unwrap())).await.unwrap().unwrap();
    assert!(row::matching_key(&file_row, &team, &FileObject::read(&own).unwrap()).is_some(), "{file_row:?}");
}

#[tokio::test]
async fn an_export_without_messages_stores_its_channels_and_people() {
    let team = TeamId::parse(TEAM).unwrap();
    let with_lists = |channels: Value| {
        let mut export = export(&[], &[]);
        let at = export.entries.iter().position(|entry| entry.name == "channels.json").unwrap();
        export.bytes[at] = channels.to_string().into_bytes();
        export
    };
    // The lists have a time, or only their files have one.
    let dated = json!([{ "id": "C1", "name": "general", "created": 1_550_000_000 }]);
    let undated = json!([{ "id": "C1", "name": "general" }]);
    for (channels, clock) in [(dated, "1550000000.000000"), (undated.clone(), "1500000000.000000")] {
        let archive = Arc::new(MemoryArchive::new());
        let (sum, _) = imported(with_lists(channels), archive.clone()).await;
        let sum = sum.unwrap();
        assert_eq!((sum.channels, sum.users, sum.messages, sum.problems), (1, 1, 0, 0));
        let channel = ChannelId::parse("C1").unwrap();
        let rows = query_all(&*archive, Query::partition(key::channels(&team, &channel))).await.unwrap();
        let clocks: Vec<&str> = rows.iter().map(|row| row.key.timestamp.as_str()).collect();
        assert_eq!(clocks, [clock]);
        let user = slack::ids::UserId::parse("U1").unwrap();
        assert!(archive.get(&ItemKey::user(&team, &user)).await.unwrap().is_some());
    }
    let mut timeless = with_lists(undated);
    timeless.entries.iter_mut().for_each(|entry| entry.modified_s = None);
    let archive = Arc::new(MemoryArchive::new());
    let (sum, _) = imported(timeless, archive.clone()).await;
    let sum = sum.unwrap();
    assert_eq!((sum.problems, sum.skipped, archive.items().len()), (1, 1, 0));
}

#[tokio::test]
async fn the_row_of_a_file_lists_every_message_of_the_export_that_shares_it() {
    let shared = |ts: &str| event::file_share(ts, "U1", "see", &["F1"]);
    let days =
        [("general/2020-09-13.json", json!([shared("1600000000.000100"), shared("1600000001.000100")]))];
    let archive = Arc::new(MemoryArchive::new());
    let (sum, _) = imported(export(&days, &[("__uploads/F1/a.txt", "twelve bytes")]), archive.clone()).await;
    assert_eq!(sum.unwrap().files, 1);
    let file = ItemKey::file(&TeamId::parse(TEAM).unwrap(), &FileId::parse("F1").unwrap());
    let shares: Vec<String> =
        row::shares(&archive.get(&file).await.unwrap().unwrap()).map(|share| share.ts.to_string()).collect();
    assert_eq!(shares, ["1600000000.000100", "1600000001.000100"]);
}

#[tokio::test]
async fn files_of_forwarded_messages_are_stored_if_the_export_has_them_and_requested_if_not() {
    let file = |id: &str| {
        json!({ "id": id, "name": "a.txt", "size": 10, "user": "U2", "shares": {},
        "url_private": format!("https://files.slack.com/files-pri/{TEAM}-{id}/a.txt?t=xoxe-1-secret") })
    };
    let forward = |ts: &str, attachment: Value| {
        event::with_fields(event::message(ts, "U1", "fyi"), [("attachments", json!([attachment]))])
    };
    let days = [(
        "general/2020-09-13.json",
        json!([
            forward("1600000000.000100", json!({ "is_share": true, "files": [file("F1")] })),
            forward(
                "1600000001.000100",
                json!({ "message_blocks": [{ "message": { "files": [file("F1")] } }] })
            ),
            forward("1600000002.000100", json!({ "is_share": true, "files": [file("F2")] })),
        ]),
    )];
    let archive = Arc::new(MemoryArchive::new());
    let (sum, _) = imported(export(&days, &[("__uploads/F1/a.txt", "some bytes")]), archive.clone()).await;
    let sum = sum.unwrap();
    assert_eq!((sum.messages, sum.files, sum.problems), (3, 2, 0), "one is in the export, one is requested");

    let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse("C1").unwrap());
    for (ts, id, is_held) in [
        ("1600000000.000100", "F1", true),
        ("1600000001.000100", "F1", true),
        ("1600000002.000100", "F2", false),
    ] {
        let key = ItemKey::message(&team, &channel, &Ts::parse(ts).unwrap());
        let message = archive.get(&key).await.unwrap().unwrap();
        let state = row::state(&message, &FileId::parse(id).unwrap());
        assert_eq!(matches!(state, Some(FileState::Stored(_))), is_held, "{message:?}");
        assert_eq!(message.attributes["files"][0]["id"], id);
        let stored = message.to_json().to_string();
        assert!(!stored.contains("xoxe") && !stored.contains("shares"), "{stored}");
    }
    let file_row = archive.get(&ItemKey::file(&team, &FileId::parse("F1").unwrap())).await.unwrap().unwrap();
    assert_eq!(row::shares(&file_row).count(), 2);
}

#[tokio::test]
async fn the_order_of_imports_makes_no_difference_to_people() {
    let at = |second: u64, name: &str, title: &str| {
        let mut export = export(&[("general/2020-09-13.json", day(second..second + 1))], &[]);
        let person = json!([{ "id": "U1", "team_id": TEAM, "name": name, "profile": { "title": title } }]);
        let index = export.entries.iter().position(|entry| entry.name == "users.json").unwrap();
        export.bytes[index] = person.to_string().into_bytes();
        export.entries[index].packed_bytes = export.bytes[index].len() as u64;
        export
    };
    let exports = || [at(100, "ada", ""), at(200, "ada", ""), at(300, "ada", "captain"), at(400, "ada", "")];
    let mut expected = None;
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [3, 0, 1, 2], [1, 1, 3, 0]] {
        let archive = Arc::new(MemoryArchive::new());
        for index in order.into_iter().chain(0..4) {
            let [one, two, three, four] = exports();
            let export = [one, two, three, four].into_iter().nth(index).unwrap();
            imported(export, archive.clone()).await.0.unwrap();
        }
        let people = archive.items().into_iter().filter(|item| item.key.item_id.starts_with("user"));
        let people: Vec<_> = people.collect();
        let seen = people.iter().find_map(|row| row.text("insert_timestamp").map(str::to_owned));
        assert_eq!(seen.as_deref(), Some("001600000100.000100"), "{order:?}");
        assert_eq!(*expected.get_or_insert_with(|| people.clone()), people, "{order:?}");
    }
}

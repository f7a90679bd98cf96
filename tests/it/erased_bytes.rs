//! An erasure, checked from the bytes: after it no file of the data folder contains what was erased, whichever
//! state of the archive it was in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};
use tests::harness::binaries::binaries;
use tests::harness::client::{RetryDelays, deliver};
use tests::harness::command::{annalist, annalist_at, json_lines, status, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::load::RunningLoad;
use tests::harness::process;
use tokio::process::Command;

use crate::export::formats::{contains, files_below};
use crate::import::export::{
    Export, ImportFolder, TEAM, channel as exported_channel, exported_message, file,
    person as exported_person,
};
use crate::import::import;

const DEADLINE: Duration = Duration::from_secs(60);
const TOKEN: &str = "xoxb-1";

/// A word in everything of one erasure.
struct Erased {
    marker: &'static str,
    arguments: &'static [&'static str],
}

/// The second of the message that is erased on its own.
const MESSAGE_TS: &str = "1600000050.000100";

const PERSON: Erased = Erased { marker: "markofperson", arguments: &["--user", "U1"] };
const CHANNEL: Erased = Erased { marker: "markofchannel", arguments: &["--channel", "C2"] };
const MESSAGE: Erased = Erased { marker: "markofmessage", arguments: &["--message", "C1", MESSAGE_TS] };
const ALL: [&Erased; 3] = [&PERSON, &CHANNEL, &MESSAGE];

fn ts(second: u64) -> String {
    format!("16000{second:05}.000100")
}

/// A timestamp that is ahead of the clock of this machine, but not too far for a new event.
fn ahead(second: i64) -> String {
    format!("{}.000100", SystemClock.now().seconds() + 200 + second)
}

/// A message of the person, and one in the channel.
fn said(ts: &str, what: &str) -> [Value; 2] {
    let text = |erased: &Erased| format!("{what} {}", erased.marker.to_owned() + " ");
    [
        event::posted("C1", &event::message(ts, "U1", &text(&PERSON))),
        event::posted("C2", &event::message(ts, "U2", &text(&CHANNEL))),
    ]
}

/// The events before the erasures, each in another state of the archive once `up` has handled them.
fn handled() -> Vec<Value> {
    let single = event::message(MESSAGE_TS, "U2", MESSAGE.marker);
    let corrected = event::edited(&single, &ts(60), &format!("corrected {}", MESSAGE.marker));
    let mut profile = event::user_change("U1", &format!("Ana {}", PERSON.marker), &ts(3));
    profile["user"]["team_id"] = TEAM.into();
    let mut events = vec![
        event::posted("C1", &single),
        event::changed("C1", &single, &corrected, &ts(60)),
        profile,
        event::posted("C1", &event::message(&ts(5), "U2", "what stays")),
    ];
    events.extend(said(&ts(1), "live"));
    events.extend(said(&ahead(1), "ahead"));
    events
}

/// The events that are set aside while Slack refuses the token: each names a person or a channel that is new.
fn waiting() -> Vec<Value> {
    let text = |erased: &Erased| format!("waiting {} ", erased.marker);
    let of_times = |[one, other]: [String; 2]| {
        [
            event::posted("C7", &event::message(&one, "U1", &text(&PERSON))),
            event::posted("C2", &event::message(&other, "U9", &text(&CHANNEL))),
        ]
    };
    [[ts(70), ts(71)], [ahead(4), ahead(5)]].into_iter().flat_map(of_times).collect()
}

/// The events that wait on the queue.
fn queued() -> Vec<Value> {
    said(&ts(7), "queued").into_iter().chain(said(&ahead(2), "queued ahead")).collect()
}

fn export() -> Export {
    let shared = |ts: &str, user: &str, id: &str, erased: &Erased| {
        let mut shared = exported_message(ts, user, &format!("a file of {}", erased.marker));
        shared["files"] = json!([file(id, erased.marker.len())]);
        shared
    };
    let mut ana = exported_person("U1");
    ana["profile"]["real_name"] = format!("Ana {} Example", PERSON.marker).into();
    let general = json!([
        shared(&ts(20), "U1", "F1", &PERSON),
        exported_message(&ahead(3), "U1", PERSON.marker),
        shared(MESSAGE_TS, "U2", "F3", &MESSAGE),
    ]);
    Export::default()
        .with("users.json", &json!([ana, exported_person("U2")]))
        .with("channels.json", &json!([exported_channel("C1", "general"), exported_channel("C2", "random")]))
        .with("general/2020-09-13.json", &general)
        .with("random/2020-09-13.json", &json!([shared(&ts(21), "U2", "F2", &CHANNEL)]))
        .with_bytes("__uploads/F1/a.txt", PERSON.marker)
        .with_bytes("__uploads/F2/a.txt", CHANNEL.marker)
        .with_bytes("__uploads/F3/a.txt", MESSAGE.marker)
}

/// A workspace whose history has what no event brought.
fn workspace() -> FakeWorkspace {
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new(TEAM) };
    workspace.channels = vec![channel("C1", "general"), channel("C2", "random")];
    workspace.members = vec![person("U1", &format!("ana {}", PERSON.marker)), person("U2", "bob")];
    for (channel, user, erased) in [("C1", "U1", &PERSON), ("C2", "U2", &CHANNEL)] {
        workspace.channel_history(channel).post(&event::message(&ts(30), user, erased.marker));
    }
    workspace
}

/// The files below a folder that contain a marker in their bytes or path.
fn leaks(folder: &Path, erased: &Erased) -> Vec<PathBuf> {
    let mut files = files_below(folder);
    files.retain(|path, bytes| {
        contains(bytes, erased.marker) || path.to_str().unwrap().contains(erased.marker)
    });
    files.into_keys().collect()
}

/// Bytes that no row names, as a copied folder may have them.
fn leave_bytes(data: &Path, erased: &Erased) {
    for key in
        ["C1/1600000077.000100/F77", "C9/1600000077.000100/F78", "images/00112233445566778899aabbccddeeff"]
    {
        let path = data.join("files/slack").join(TEAM).join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, erased.marker).unwrap();
    }
}

/// Erases, and kills the process once its facts are stored; then erases again.
async fn erase(data: &Path, erased: &Erased) -> Value {
    let list = data.join("erasures.jsonl");
    let length = || std::fs::metadata(&list).map_or(0, |metadata| metadata.len());
    let before = length();
    let mut command = Command::new(&binaries().annalist);
    command.arg("erase").args(erased.arguments).args(["--yes", "--data"]).arg(data);
    let mut killed =
        command.env_clear().kill_on_drop(true).stdout(std::process::Stdio::null()).spawn().unwrap();
    let is_stored = async {
        while length() == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, is_stored).await.expect("the facts are stored");
    killed.kill().await.unwrap();
    let arguments = [&["erase"], erased.arguments, &["--yes", "--compact"]].concat();
    json_lines(data, &arguments).await.remove(0)
}

/// Waits until this number of jobs waits aside.
async fn wait_until_aside(data: &Path, jobs: usize) {
    let is_aside = async {
        loop {
            let report = status(data).await;
            let aside = report["waiting"].as_array().unwrap().iter().filter_map(|line| line["jobs"].as_u64());
            if aside.sum::<u64>() == jobs as u64 {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, is_aside).await.expect("the jobs are set aside");
}

async fn texts(data: &Path) -> Vec<String> {
    let messages = json_lines(data, &["messages", "C1"]).await;
    messages.iter().map(|message| message["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_of_a_folder_has_what_was_erased_in_whichever_state_it_was() {
    let import_folder = ImportFolder::new();
    let (slack, data) = (FakeSlack::start().await, import_folder.data());
    slack.set_workspace(TOKEN, workspace());
    let (zip, folder) = (import_folder.zip("export.zip", &export()), tempfile::tempdir().unwrap());
    let environment = FolderWithSlack { data: &data, slack: &slack, token: TOKEN };
    let (handled, waiting, queued) = (handled(), waiting(), queued());
    let server = process::up(&environment).await;
    server.process.wait_for_log("the directory is synced", DEADLINE).await;
    deliver(server.address, TEAM, &handled).await;
    // Too far ahead for a new event: quarantined.
    deliver(server.address, TEAM, &said("4102444800.000100", "quarantined")).await;
    wait_until_idle(&*data, DEADLINE).await;
    let imported = import(&zip, &data).await;
    assert_eq!(imported.code, Some(0), "{:?} {}", imported.problems, imported.stderr);
    annalist_at(&environment, &["backfill", "--all"]).await.succeeded();
    wait_until_idle(&*data, DEADLINE).await;
    slack.remove_workspace(TOKEN);
    deliver(server.address, TEAM, &waiting).await;
    wait_until_aside(&data, waiting.len()).await;
    server.process.stop().await;
    slack.set_workspace(TOKEN, workspace());
    assert_eq!(annalist_at(&*data, &["index"]).await.code, Some(0));

    // A backup under load, with a queue.
    let ingest = process::ingest(&*data).await;
    deliver(ingest.address, TEAM, &queued).await;
    let mut load = RunningLoad::start(ingest.address, 2, 71, &RetryDelays::slack(Duration::from_millis(20)));
    load.wait_for_acks(50).await;
    for erased in ALL {
        leave_bytes(&data, erased);
    }
    let (packed, copy) = (folder.path().join("a.tar"), folder.path().join("copy"));
    let (packed, restored) = (packed.to_str().unwrap(), copy.to_str().unwrap());
    let output = annalist_at(&*data, &["backup", packed]).await.succeeded().stdout;
    assert!(output.contains("no row names them: 3 files"), "{output}");
    load.stop().await;
    ingest.process.stop().await;

    for erased in ALL {
        leave_bytes(&data, erased);
        assert!(leaks(&data, erased).len() >= 2, "{}", erased.marker);
        let done = erase(&data, erased).await;
        assert_eq!(leaks(&data, erased), [] as [PathBuf; 0], "{}: {done}", erased.marker);
    }
    assert_eq!(texts(&data).await, ["what stays"]);

    // The folder from before, with the files of a copy that was made later.
    annalist(&["restore", packed, "--data", restored]).await.succeeded();
    std::fs::copy(data.join("erasures.jsonl"), copy.join("erasures.jsonl")).unwrap();
    for erased in ALL {
        leave_bytes(&copy, erased);
        assert!(!leaks(&copy, erased).is_empty(), "{}", erased.marker);
    }
    annalist_at(&*copy, &["erase", "--replay", "--yes", "--compact"]).await.succeeded();
    for erased in ALL {
        assert_eq!(leaks(&copy, erased), [] as [PathBuf; 0], "replayed {}", erased.marker);
    }

    // Everything comes again.
    let environment = FolderWithSlack { data: &copy, slack: &slack, token: TOKEN };
    let server = process::up(&environment).await;
    deliver(server.address, TEAM, &[handled, waiting, queued].concat()).await;
    wait_until_idle(&*copy, DEADLINE).await;
    server.process.stop().await;
    assert_eq!(import(&zip, &copy).await.code, Some(0));
    annalist_at(&environment, &["backfill", "--all"]).await.succeeded();
    for erased in ALL {
        assert_eq!(leaks(&copy, erased), [] as [PathBuf; 0], "delivered again {}", erased.marker);
    }
}

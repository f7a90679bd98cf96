//! History with a bot token alone: without events, a public address or a running `annalist up`.

use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::environment::FolderWithSlack;

const TOKEN: &str = "xoxb-1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_folder_becomes_a_searchable_archive() {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new("T1") };
    workspace.channels.push(channel("C0GENERAL", "general"));
    for n in 0..5 {
        let ts = format!("{}.000100", 1_690_000_000 + n * 1_000);
        workspace.channel_history("C0GENERAL").post(&event::message(&ts, "U0FIRST", "a walrus"));
    }
    slack.set_workspace(TOKEN, workspace);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new");
    let environment = FolderWithSlack { data: &data, slack: &slack, token: TOKEN };
    annalist_at(&environment, &["backfill", "--all"]).await.assert_refused(1, "run `annalist sync` first");
    for arguments in [&["sync"][..], &["backfill", "--all"]] {
        annalist_at(&environment, arguments).await.succeeded();
    }
    // The index is complete: a search adds nothing to it.
    let index = search::index::SearchIndex::open(&data.join("index.db")).await.unwrap();
    assert_eq!(index.count().await.unwrap(), 5);
    assert_eq!(json_lines(data.as_path(), &["search", "walrus"]).await.len(), 5);
}

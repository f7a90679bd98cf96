//! `annalist index` and `annalist search` on AWS: a local index of a remote archive.

use std::path::Path;
use std::time::Duration;

use ports::queue::topology::TableRole;
use serde_json::Value;
use testkit::corpus::{TEAM, event};
use tests::harness::client::deliver_through_up;
use tests::harness::command::{annalist_at, json_lines, wait_until_idle};
use tests::harness::environment::AwsInstallation;

const DEADLINE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "C0GENERAL";
const ROOT: &str = "1700000000.000100";

/// Events, and later events that change their messages.
fn event_batches() -> [Vec<Value>; 2] {
    let root = event::message(ROOT, "U0ANA", "the deployment of 会議室 failed");
    let edited = event::edited(&root, "1700000005.000000", "the rollout of 会議室 failed");
    let reply = event::reply("1700000001.000100", ROOT, "U0BEN", "which deployment?");
    let first = [
        event::channel_created(CHANNEL, "general", "1699999999.000100"),
        event::user_change("U0ANA", "ana", "1699999999.000200"),
        event::posted(CHANNEL, &root),
        event::posted(CHANNEL, &reply),
        event::posted("C0OTHER", &event::message("1600000000.000100", "U0BEN", "an older deployment")),
    ];
    let then = [
        event::changed(CHANNEL, &root, &edited, "1700000005.000100"),
        event::deleted(CHANNEL, &reply, "1700000006.000100"),
        event::posted("C0OTHER", &event::message("1700000007.000100", "U0ANA", "a later deployment")),
    ];
    [first.into(), then.into()]
}

const SEARCHES: [&[&str]; 8] = [
    &["search", "deployment"],
    &["search", "deployment", "--json"],
    &["search", "会議"],
    &["search", "rollout", "from:@ana", "in:#general"],
    &["search", "deployment", "is:deleted"],
    &["search", "deployment", "after:2023-01-01", "--rank"],
    &["search", "has:thread"],
    &["search", "nowhere"],
];

async fn assert_same(folder: &Path, installation: &AwsInstallation, index: &str) {
    for args in SEARCHES {
        let args = [args, &["--tz", "UTC"]].concat();
        let here = annalist_at(folder, &args).await;
        let there = annalist_at(installation, &[&args[..], &["--index", index]].concat()).await;
        assert_eq!((here.code, there.code), (Some(0), Some(0)), "{args:?}: {there:?}");
        assert_eq!(there.stdout, here.stdout, "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_of_a_fleets_archive_finds_the_same_as_on_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (data, index) = (folder.path().join("data"), folder.path().join("index"));
    let index = index.to_str().unwrap();
    let installation = AwsInstallation::new().await;
    let [first, then] = event_batches();
    let here = async || drop(wait_until_idle(&*data, DEADLINE).await);
    let there = async || installation.wait_until_drained(DEADLINE).await;
    tokio::join!(
        deliver_through_up(&*data, TEAM, &first, here()),
        deliver_through_up(&installation, TEAM, &first, there())
    );
    let cache = folder.path().join("cache");
    let by_default = installation.with_variable("XDG_CACHE_HOME", cache.to_str());
    assert_eq!(annalist_at(&by_default, &["index"]).await.code, Some(0));
    let table = installation.aws.names().table(TableRole::Archive);
    assert!(cache.join("annalist").join(table).join("index.db").exists());
    let indexed = annalist_at(&installation, &["index", "--index", index]).await.succeeded();
    assert_eq!(indexed.stdout, format!("3 messages can be found, in {index}/index.db.\n"));
    assert_same(&data, &installation, index).await;
    assert_eq!(json_lines(&installation, &["search", "deployment", "--index", index]).await.len(), 3);

    // A search first indexes the rows written since.
    tokio::join!(
        deliver_through_up(&*data, TEAM, &then, here()),
        deliver_through_up(&installation, TEAM, &then, there())
    );
    assert_same(&data, &installation, index).await;
    let later = json_lines(&installation, &["search", "deployment", "--index", index]).await;
    assert_eq!(later.len(), 2, "{later:?}");
    let indexed = annalist_at(&installation, &["index", "--rebuild", "--index", index]).await;
    assert!(indexed.stdout.starts_with("4 messages can be found"), "{indexed:?}");
    assert_same(&data, &installation, index).await;
    let assistant = annalist_at(&installation, &["mcp", "--index", index]).await;
    assert_eq!((assistant.code, assistant.stdout.as_str()), (Some(0), ""), "{assistant:?}");
}

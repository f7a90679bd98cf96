//! `annalist erase` on AWS: rows are deleted from the table, their objects from the bucket with all versions,
//! and redelivered events do not restore them.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use tests::harness::client::deliver_through_up;
use tests::harness::command::json_lines;
use tests::harness::environment::AwsInstallation;
use tests::harness::stack::Stack;

use super::files::keep_versions;

const DEADLINE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "C0GENERAL";
const ERASED: &str = "U0ANA";

/// The events before the erasure.
fn events() -> [Value; 6] {
    let first = event::message("1700000000.000100", ERASED, "the first draft");
    let edited = event::edited(&first, "1700000005.000000", "the second draft");
    [
        event::channel_created(CHANNEL, "general", "1699999999.000100"),
        event::user_change(ERASED, "ana", "1699999999.000200"),
        event::posted(CHANNEL, &first),
        event::posted(CHANNEL, &event::message("1700000001.000100", "U0BEN", "what stays")),
        event::changed(CHANNEL, &first, &edited, "1700000005.000100"),
        event::posted(CHANNEL, &event::message("1700000002.000100", ERASED, "another one")),
    ]
}

async fn erase(installation: &AwsInstallation, yes: &[&str]) -> Value {
    let args = [&["erase", "--user", "ana"], yes].concat();
    json_lines(installation, &args).await.pop().unwrap()
}

/// The texts of all messages in the channel, and the names of people.
async fn stored(installation: &AwsInstallation) -> (Vec<Value>, Vec<Value>) {
    let messages = json_lines(installation, &["messages", CHANNEL]).await;
    let people = json_lines(installation, &["users"]).await;
    let of = |rows: Vec<Value>, name: &str| rows.iter().map(|row| row[name].clone()).collect();
    (of(messages, "text"), of(people, "name"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_person_stays_erased() {
    let installation = AwsInstallation::new().await;
    deliver_through_up(&installation, TEAM, &events(), installation.wait_until_drained(DEADLINE)).await;
    let all =
        (vec![json!("the second draft"), json!("what stays"), json!("another one")], vec![json!("ana")]);
    assert_eq!(stored(&installation).await, all);

    let planned = erase(&installation, &[]).await;
    assert_eq!(
        (&planned["dry_run"], &planned["messages"], &planned["revisions"]),
        (&json!(true), &json!(2), &json!(1))
    );
    assert_eq!(stored(&installation).await, all, "a dry run changes nothing");

    let erased = erase(&installation, &["--yes"]).await;
    assert_eq!(
        (&erased["dry_run"], &erased["messages"], &erased["revisions"]),
        (&json!(false), &json!(2), &json!(1))
    );
    let rest = (vec![json!("what stays")], Vec::new());
    assert_eq!(stored(&installation).await, rest);

    deliver_through_up(&installation, TEAM, &events(), installation.wait_until_drained(DEADLINE)).await;
    assert_eq!(stored(&installation).await, rest, "redelivered events restore nothing");
}

/// The contents of all versions in the bucket, which has no delete marker.
async fn kept_versions(installation: &AwsInstallation) -> Vec<String> {
    let (client, bucket) = (Stack::shared().s3().await, installation.aws.names().bucket());
    let page = client.list_object_versions().bucket(bucket).send().await.unwrap();
    assert!(page.is_truncated() != Some(true) && page.delete_markers().is_empty(), "{page:?}");
    let mut contents = Vec::new();
    for version in page.versions() {
        let get = client.get_object().bucket(bucket).set_key(version.key.clone());
        let got = get.set_version_id(version.version_id.clone()).send().await.unwrap();
        contents.push(String::from_utf8(got.body.collect().await.unwrap().to_vec()).unwrap());
    }
    contents
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_with_versions_keeps_none_of_an_erased_persons_long_texts() {
    let installation = AwsInstallation::new().await;
    keep_versions(Stack::shared(), installation.aws.names().bucket()).await;
    let long = |text: &str| text.repeat(2_000);
    let first = event::message("1700000000.000100", ERASED, &long("the first draft "));
    let edited = event::edited(&first, "1700000005.000000", &long("the second draft "));
    let events = [
        event::channel_created(CHANNEL, "general", "1699999999.000100"),
        event::user_change(ERASED, "ana", "1699999999.000200"),
        event::posted(CHANNEL, &first),
        event::posted(CHANNEL, &event::message("1700000001.000100", "U0BEN", &long("what stays "))),
        event::changed(CHANNEL, &first, &edited, "1700000005.000100"),
    ];
    deliver_through_up(&installation, TEAM, &events, installation.wait_until_drained(DEADLINE)).await;
    let kept = async |text| {
        let contents = kept_versions(&installation).await;
        contents.iter().filter(|content| content.contains(text)).count()
    };
    for text in ["the first draft", "the second draft", "what stays"] {
        assert!(kept(text).await > 0, "{text} is in no object: it is too short");
    }

    erase(&installation, &["--yes"]).await;
    for text in ["the first draft", "the second draft"] {
        assert_eq!(kept(text).await, 0, "{text}");
    }
    assert!(kept("what stays").await > 0);
}

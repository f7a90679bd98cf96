//! `annalist erase` on AWS: rows go from the table, and what is delivered again does not come back.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use tests::harness::client::play;
use tests::harness::command::json_lines;
use tests::harness::place::AwsInstallation;

const DEADLINE: Duration = Duration::from_secs(60);
const CHANNEL: &str = "C0GENERAL";
const ERASED: &str = "U0ANA";

/// What is said.
fn told() -> [Value; 6] {
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

/// The texts of all messages that are read, and the names of people.
async fn held(installation: &AwsInstallation) -> (Vec<Value>, Vec<Value>) {
    let messages = json_lines(installation, &["messages", CHANNEL]).await;
    let people = json_lines(installation, &["users"]).await;
    let of = |rows: Vec<Value>, name: &str| rows.iter().map(|row| row[name].clone()).collect();
    (of(messages, "text"), of(people, "name"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_is_erased_and_nothing_brings_them_back() {
    let installation = AwsInstallation::new().await;
    play(&installation, TEAM, &told(), installation.drained(DEADLINE)).await;
    let all =
        (vec![json!("the second draft"), json!("what stays"), json!("another one")], vec![json!("ana")]);
    assert_eq!(held(&installation).await, all);

    let planned = erase(&installation, &[]).await;
    assert_eq!(
        (&planned["dry_run"], &planned["messages"], &planned["revisions"]),
        (&json!(true), &json!(2), &json!(1))
    );
    assert_eq!(held(&installation).await, all, "a dry run changes nothing");

    let erased = erase(&installation, &["--yes"]).await;
    assert_eq!(
        (&erased["dry_run"], &erased["messages"], &erased["revisions"]),
        (&json!(false), &json!(2), &json!(1))
    );
    let rest = (vec![json!("what stays")], Vec::new());
    assert_eq!(held(&installation).await, rest);

    play(&installation, TEAM, &told(), installation.drained(DEADLINE)).await;
    assert_eq!(held(&installation).await, rest, "events that come again bring nothing back");
}

use clap::FromArgMatches;
use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::queue::job::{encode_event, encode_job};
use ports::queue::{DedupId, Delivery, GroupId, MessageId, Outgoing, QueueName, Receipt};
use process::config::zone::NamedZone;
use reader::gaps::GapProgress;
use serde_json::json;
use testkit::deliveries::receive_visible;

use super::*;
use crate::fixture::{CliFixture, output};
use crate::operate::status;

fn utc() -> ZoneArgs {
    ZoneArgs { tz: Some(NamedZone::parse("UTC").unwrap()) }
}

/// Returns the first delivery of a job.
fn delivery(message_id: &str, group: &[&str], body: String) -> Delivery {
    Delivery {
        message_id: MessageId(message_id.into()),
        group: GroupId::from_parts(group),
        body,
        receive_count: 1,
        sent_at: TimestampMs(1_795_178_096_789),
        receipt: Receipt("1".into()),
    }
}

/// Quarantines a job of the events queue.
async fn insert(fixture: &CliFixture, delivery: &Delivery, reason: &str) {
    quarantine::insert(&fixture.ports, QueueName::Events.into(), delivery, reason).await.unwrap();
}

fn no_filter() -> QuarantineFilterArgs {
    QuarantineFilterArgs::default()
}

fn replay_all(fixture: &CliFixture) -> QuarantineCommand {
    QuarantineCommand::Replay {
        id: None,
        all: true,
        waiting: false,
        filter: no_filter(),
        backend: fixture.data(),
    }
}

fn replay_one(fixture: &CliFixture, id: String) -> QuarantineCommand {
    QuarantineCommand::Replay {
        id: Some(id),
        all: false,
        waiting: false,
        filter: no_filter(),
        backend: fixture.data(),
    }
}

fn drop_one(fixture: &CliFixture, id: String) -> QuarantineCommand {
    QuarantineCommand::Drop { id: Some(id), filter: no_filter(), yes: false, backend: fixture.data() }
}

/// Stores the totals of this day: jobs, bytes and, if there are any, outlines.
async fn set_kept_today(fixture: &CliFixture, counts: &str) {
    let day = fixture.ports.clock.now().seconds() / 86_400;
    let mut update = Update::new(ItemKey::strangers_size());
    update.set.insert("kept".to_owned(), format!("{day}/{counts}").into());
    fixture.archive().write(&update).await.unwrap();
}

#[tokio::test]
async fn jobs_of_one_moment_are_listed_and_replayed_in_the_order_of_their_numbers_over_all_pages() {
    let fixture = CliFixture::open().await;
    let mut expected = Vec::new();
    for (later_ms, numbers) in [(0, 1..121), (1, 121..131), (2, 131..190)] {
        for number in numbers.clone().rev() {
            let job = delivery(&number.to_string(), &["T1"], format!("no job {number}"));
            let sent_at = TimestampMs(job.sent_at.0 + later_ms);
            insert(&fixture, &Delivery { sent_at, ..job }, "odd").await;
        }
        expected
            .extend(numbers.map(|number| format!("events-{}-{number}", 1_795_178_096_789_i64 + later_ms)));
    }
    let list =
        QuarantineCommand::List { filter: no_filter(), backend: fixture.data(), json: true, zone: utc() };
    let lines = run_command(&fixture, &list).await.unwrap();
    let ids = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["id"].as_str().unwrap().to_owned()
    });
    assert_eq!(ids.collect::<Vec<_>>(), expected);
    let replayed = run_command(&fixture, &replay_all(&fixture)).await.unwrap();
    assert_eq!(replayed, "Sent back 189 jobs.\n");
    let sent: Vec<String> = received(&fixture).await.into_iter().map(|delivery| delivery.body).collect();
    let bodies: Vec<String> = (1..190).map(|number| format!("no job {number}")).collect();
    assert_eq!(sent, bodies);
    assert_eq!(run_command(&fixture, &list).await.unwrap(), "");
}

#[tokio::test]
async fn a_long_reason_keeps_its_end() {
    let fixture = CliFixture::open().await;
    let reason = format!("{}; then replay it", "long ".repeat(200));
    insert(&fixture, &delivery("m1", &["T1"], "{}".to_owned()), &reason).await;
    let zone = ZoneArgs { tz: Some(NamedZone::parse("America/New_York").unwrap()) };
    let list = QuarantineCommand::List { filter: no_filter(), backend: fixture.data(), json: false, zone };
    let text = run_command(&fixture, &list).await.unwrap();
    assert!(text.contains("    …") && text.contains("; then replay it\n"), "{text}");
    assert!(text.starts_with("Times are in America/New_York.\n"), "{text}");
    assert!(text.contains("first seen 2026-11-20 07:34:56"), "{text}");
}

async fn quarantine_event(fixture: &CliFixture, message_id: &str) -> String {
    let body = "{\"v\":1,\"event\":{\"team_id\":\"t#\\u001b[2J\"}}".to_owned();
    let delivery = Delivery { receive_count: 2, ..delivery(message_id, &["invalid"], body) };
    insert(fixture, &delivery, "the \u{1b}[31mteam id").await;
    format!("events-1795178096789-{message_id}")
}

async fn run_command(fixture: &CliFixture, command: &QuarantineCommand) -> anyhow::Result<String> {
    output(async |out| run(&fixture.backend, &fixture.ports.clock, command, out).await).await
}

#[tokio::test]
async fn a_listed_job_has_the_documented_fields() {
    let fixture = CliFixture::open().await;
    let id = quarantine_event(&fixture, "m1").await;
    let list =
        |json| QuarantineCommand::List { filter: no_filter(), backend: fixture.data(), json, zone: utc() };
    let json: Value = serde_json::from_str(&run_command(&fixture, &list(true)).await.unwrap()).unwrap();
    assert_eq!(
        json,
        json!({
            "id": id, "queue": "events", "team_id": null, "group": "invalid", "reason": "the \u{1b}[31mteam id", "attempts": 2,
            "first_seen": "2026-11-20T12:34:56.789Z", "last_seen": "2026-11-20T12:34:56.000Z",
        })
    );
    let text = run_command(&fixture, &list(false)).await.unwrap();
    assert!(text.contains(&id) && !text.contains('\u{1b}'), "{text:?}");
}

#[tokio::test]
async fn show_replay_and_drop_accept_only_known_ids() {
    let fixture = CliFixture::open().await;
    let (shown, replayed, dropped) = (
        quarantine_event(&fixture, "m1").await,
        quarantine_event(&fixture, "m2").await,
        quarantine_event(&fixture, "m3").await,
    );
    let data = || fixture.data();
    let show = QuarantineCommand::Show { id: shown, backend: data(), json: false, zone: utc() };
    let text = run_command(&fixture, &show).await.unwrap();
    assert!(text.contains("\"team_id\"") && !text.contains('\u{1b}'), "{text:?}");

    let replay = replay_one(&fixture, replayed);
    run_command(&fixture, &replay).await.unwrap();
    assert_eq!(fixture.ports.queue.depth(QueueName::Events.into()).await.unwrap().waiting, 1);
    let drop = drop_one(&fixture, dropped);
    run_command(&fixture, &drop).await.unwrap();
    assert_eq!(quarantine::count(fixture.archive()).await.unwrap(), 1);

    // A removed job is unknown, like a job that never existed.
    for command in [
        &replay,
        &drop,
        &QuarantineCommand::Show { id: "\u{1b}".repeat(999), backend: data(), json: true, zone: utc() },
    ] {
        let error = run_command(&fixture, command).await.unwrap_err().to_string();
        assert!(error.starts_with("no job ") && error.len() < 500 && !error.contains('\u{1b}'), "{error:?}");
    }
    run_command(&fixture, &replay_all(&fixture)).await.unwrap();
    assert_eq!(quarantine::count(fixture.archive()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_job_beyond_the_daily_limit_is_an_outline_that_can_be_dropped_but_not_replayed() {
    let fixture = CliFixture::open().await;
    set_kept_today(&fixture, "99999/0").await;
    let event = r#"{"team_id":"T1","event":{"type":"message","channel":"C1","channel_type":"channel","event_ts":"5.0001","text":"much"}}"#;
    let jobs = ["m1", "m2"].map(|message_id| delivery(message_id, &["T1", "C1"], encode_event(event)));
    let odd: Vec<(&Delivery, &str)> = jobs.iter().map(|job| (job, "odd")).collect();
    let put = quarantine::insert_all(&fixture.ports, QueueName::Events.into(), &odd).await;
    assert!(put.iter().all(Result::is_ok), "{put:?}");
    let kept = quarantine::list(fixture.archive()).await.unwrap();
    let has_text = |job: &&Quarantined| job.payload.contains("much");
    assert_eq!((kept.len(), kept.iter().filter(has_text).count()), (2, 1), "{kept:?}");
    let outline = kept.iter().find(|job| !has_text(job)).unwrap();
    assert!(outline.reason.starts_with("odd (its ") && outline.reason.contains("sha256"), "{outline:?}");

    let text = run_command(&fixture, &replay_all(&fixture)).await.unwrap();
    assert!(text.starts_with(&format!("{} stays: its body was not kept", outline.id)), "{text}");
    assert!(text.ends_with("\n1 job stays.\nSent back 1 job.\n"), "{text}");
    // A job that was replayed and failed again is kept whole.
    let again = received(&fixture).await.remove(0);
    insert(&fixture, &again, "odd").await;
    assert_eq!(quarantine::list(fixture.archive()).await.unwrap().iter().filter(has_text).count(), 1);
    let drop = drop_one(&fixture, outline.id.clone());
    assert!(run_command(&fixture, &drop).await.unwrap().contains("C1 lacks it"));
}

#[tokio::test]
async fn jobs_that_are_only_counted_are_listed_as_one_and_counted_by_status_and_as_a_gap() {
    let fixture = CliFixture::open().await;
    fixture.channel("T1", "C1", "1795178000.000000", "general").await;
    set_kept_today(&fixture, "100000/0/10000").await;
    for message_id in ["m1", "m2", "m3"] {
        quarantine_event(&fixture, message_id).await;
    }
    let list =
        |json| QuarantineCommand::List { filter: no_filter(), backend: fixture.data(), json, zone: utc() };
    let text = run_command(&fixture, &list(false)).await.unwrap();
    assert!(text.contains("3 more jobs of this day are only counted"), "{text}");
    let line: Value = serde_json::from_str(&run_command(&fixture, &list(true)).await.unwrap()).unwrap();
    let status = status::read(&*fixture.ports.queue, fixture.archive()).await.unwrap();
    assert_eq!((status.quarantined, status.gaps), (3, 1));
    let id = || line["id"].as_str().unwrap().to_owned();
    let show = QuarantineCommand::Show { id: id(), backend: fixture.data(), json: false, zone: utc() };
    assert!(run_command(&fixture, &show).await.unwrap().contains("only counted"));
    let drop = drop_one(&fixture, id());
    assert_eq!(run_command(&fixture, &drop).await.unwrap(), format!("dropped {}\n", id()));
    let status = status::read(&*fixture.ports.queue, fixture.archive()).await.unwrap();
    assert_eq!((status.quarantined, status.gaps), (0, 1));
}

/// Receives all jobs on the events queue.
async fn received(fixture: &CliFixture) -> Vec<Delivery> {
    let queue = &*fixture.ports.queue;
    let mut all = Vec::new();
    loop {
        let deliveries = receive_visible(queue, QueueName::Events).await;
        if deliveries.is_empty() {
            return all;
        }
        let receipts: Vec<Receipt> = deliveries.iter().map(|delivery| delivery.receipt.clone()).collect();
        queue.ack(QueueName::Events.into(), &receipts).await;
        all.extend(deliveries);
    }
}

fn numbers(deliveries: &[Delivery]) -> Vec<u64> {
    let number = |delivery: &Delivery| {
        serde_json::from_str::<Value>(&delivery.body).unwrap()["event"]["n"].as_u64().unwrap()
    };
    deliveries.iter().map(number).collect()
}

#[tokio::test]
async fn replayed_jobs_keep_their_first_order_even_after_one_failed_twice() {
    let fixture = CliFixture::open().await;
    let replay = async |id: Option<String>| {
        let command = match id {
            Some(id) => replay_one(&fixture, id),
            None => replay_all(&fixture),
        };
        run_command(&fixture, &command).await.unwrap();
    };
    // All within one millisecond, and enough of them that their numbers have different lengths.
    let events = (0..12_u64).map(|n| Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&["T1", "C1"]),
        dedup: DedupId::from_parts(&[&n.to_be_bytes()]),
        body: encode_event(&format!("{{\"n\":{n}}}")),
    });
    fixture.ports.queue.send(events.collect()).await;
    let sent = received(&fixture).await;
    let first_order: Vec<u64> = (0..12).collect();
    assert_eq!(numbers(&sent), first_order);
    for delivery in sent.iter().rev() {
        insert(&fixture, delivery, "odd").await;
    }
    let fifth = quarantine::list(fixture.archive()).await.unwrap().remove(5).id;
    replay(Some(fifth.clone())).await;
    let again = received(&fixture).await;
    assert_eq!(numbers(&again), [5]);
    insert(&fixture, &again[0], "odd").await;
    // A second replay at the same time: each replay is a separate message.
    replay(Some(fifth)).await;
    let again = received(&fixture).await;
    assert_eq!(numbers(&again), [5]);
    insert(&fixture, &again[0], "odd").await;

    replay(None).await;
    assert_eq!(numbers(&received(&fixture).await), first_order);
    assert_eq!(quarantine::count(fixture.archive()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_shown_job_has_no_secrets_and_a_dropped_event_is_a_gap() {
    let fixture = CliFixture::open().await;
    let envelope = json!({ "token": "verification", "team_id": "T1", "event": {
        "type": "message", "channel": "C1", "channel_type": "channel", "event_ts": "1700000000.000100",
        "text": "xoxb-1-2-abcdefgh" } });
    let delivery = delivery("7", &["T1", "C1"], encode_event(&envelope.to_string()));
    insert(&fixture, &delivery, "no xoxb-1-2-abcdefgh").await;
    let (id, backend) = ("events-1795178096789-7".to_owned(), fixture.data());
    for json in [true, false] {
        let show = QuarantineCommand::Show { id: id.clone(), backend: backend.clone(), json, zone: utc() };
        let list =
            QuarantineCommand::List { filter: no_filter(), backend: backend.clone(), json, zone: utc() };
        for command in [show, list] {
            let text = run_command(&fixture, &command).await.unwrap();
            assert!(!text.contains("verification") && !text.contains("xoxb"), "{text}");
            let time = if json { "2026-11-20T12:34:56.789Z" } else { "2026-11-20 12:34:56" };
            assert!(text.contains(time) && text.contains("[removed]"), "{text}");
        }
    }
    let drop = drop_one(&fixture, id);
    assert!(run_command(&fixture, &drop).await.unwrap().ends_with("shows that C1 lacks it\n"));
    let gaps = reader::gaps::progress_of_all(fixture.archive()).await.unwrap();
    let [(team, GapProgress { gap, .. })] = gaps.as_slice() else { panic!("{gaps:?}") };
    assert_eq!((team.as_str(), gap.reason.as_str()), ("T1", "dropped"));
    assert_eq!((gap.from.as_str(), gap.to.as_ref()), ("1700000000.000100", Some(&gap.from)));
}

/// A command as it is typed.
fn typed(fixture: &CliFixture, words: &[&str]) -> Result<QuarantineCommand, clap::Error> {
    let backend = fixture.data();
    let data = backend.data.data.to_str().unwrap();
    let command = QuarantineCommand::augment_subcommands(clap::Command::new("quarantine"));
    let typed = [&["quarantine"], words, &["--data", data]].concat();
    QuarantineCommand::from_arg_matches(&command.try_get_matches_from(typed)?)
}

#[tokio::test]
async fn filters_select_jobs_of_list_replay_and_drop_and_combine() {
    let fixture = CliFixture::open().await;
    for (number, team, reason) in [
        ("1", "T1", "Slack does not know user U1"),
        ("2", "T2", "Slack does not know channel C1"),
        ("3", "T1", "the event is odd"),
        ("4", "T1", "slack DOES not know user U2"),
        ("5", "T3", "the secret xoxb-1-2-abcdefgh is odd"),
    ] {
        let event =
            json!({ "team_id": team, "event": { "type": "message", "channel": "C1", "event_ts": "5.0001" } });
        insert(&fixture, &delivery(number, &[team], encode_event(&event.to_string())), reason).await;
    }
    let file = delivery("6", &["T1"], encode_job("file", &json!({ "team": "T1" })));
    quarantine::insert(&fixture.ports, QueueName::Files.into(), &file, "Slack does not know it")
        .await
        .unwrap();
    let said = async |words: &[&str]| run_command(&fixture, &typed(&fixture, words).unwrap()).await;
    let listed = async |words: &[&str]| -> String {
        let lines = said(&[&["list", "--json"], words].concat()).await.unwrap();
        let numbers = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["id"].as_str().unwrap().rsplit('-').next().unwrap().to_owned()
        });
        numbers.collect()
    };
    for (words, expected) in [
        (&[][..], "123456"),
        (&["--team", "T1"], "1346"),
        (&["--reason", "DOES NOT know"], "1246"),
        (&["--queue", "files"], "6"),
        (&["--team", "T1", "--reason", "know", "--queue", "events"], "14"),
        (&["--team", "T2", "--reason", "odd"], ""),
        (&["--team", "T0UNKNOWN"], ""),
        (&["--queue", "replies"], ""),
        (&["--reason", "xoxb-1"], ""),
        (&["--reason", "[removed]"], "5"),
    ] {
        assert_eq!(listed(words).await, expected, "{words:?}");
    }
    for words in [
        &["list", "--team", "T2", "--reason", "odd"][..],
        &["replay", "--team", "T9"],
        &["drop", "--team", "T9"],
    ] {
        assert_eq!(said(words).await.unwrap(), "Nothing matches.\n");
    }
    let first = format!("{:?}", said(&["list", "--json", "--team", "T2"]).await);
    assert!(first.contains("\\\"team_id\\\":\\\"T2\\\""), "{first}");

    let refused = said(&["drop", "--reason", "odd"]).await.unwrap_err().to_string();
    assert!(refused.starts_with("2 jobs match: ") && refused.contains("--yes"), "{refused}");
    assert_eq!(listed(&[]).await, "123456");
    assert_eq!(said(&["drop", "--reason", "odd", "--yes"]).await.unwrap(), "Dropped 2 jobs.\n");
    let gaps = reader::gaps::progress_of_all(fixture.archive()).await.unwrap();
    assert_eq!(gaps.len(), 2, "each dropped event is a gap");
    let replay = ["replay", "--team", "T1", "--reason", "know", "--queue", "events"];
    assert_eq!(said(&replay).await.unwrap(), "Sent back 2 jobs.\n");
    assert_eq!((received(&fixture).await.len(), listed(&[]).await.as_str()), (2, "26"));
    assert_eq!(said(&["replay", "--all"]).await.unwrap(), "Sent back 2 jobs.\n");
    assert_eq!(said(&["replay", "--all"]).await.unwrap(), "Nothing matches.\n");
}

#[tokio::test]
async fn replay_and_drop_need_one_job_or_a_filter_and_never_both() {
    let fixture = CliFixture::open().await;
    for words in [
        &["replay"][..],
        &["drop"],
        &["drop", "--yes"],
        &["drop", "--all", "--yes"],
        &["replay", "events-1-1", "--all"],
        &["replay", "events-1-1", "--team", "T1"],
        &["replay", "--all", "--team", "T1"],
        &["drop", "events-1-1", "--reason", "odd"],
        &["drop", "--reason", ""],
        &["replay", "--queue", "evnets"],
        &["replay", "--team", "acme"],
    ] {
        assert!(typed(&fixture, words).is_err(), "{words:?}");
    }
}

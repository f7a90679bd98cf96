//! `annalist gaps`, from signed requests to the printed list: real processes on one data folder.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ports::archive::{ArchiveExt, Update};
use ports::clock::SystemClock;
use rules::filled::{SpanSource, filled_update, plan_limit_update};
use secrecy::SecretString;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use slack::signature::SigningSecrets;
use testkit::corpus::{TEAM, event};
use tests::harness::client::{EventClient, RetryDelays, deliver};
use tests::harness::command::{annalist_at, json_lines, status, wait_until_idle};
use tests::harness::process::{self, Process};

const CHANNEL: &str = "C0GENERAL";
const DEADLINE: Duration = Duration::from_secs(30);
/// The app's own user, as named in every generated envelope.
const APP: &str = "U0ANNALIST";

#[derive(Clone, Copy, Debug)]
enum ProcessEnd {
    Term,
    Kill,
}

impl ProcessEnd {
    async fn apply_to(self, process: Process) {
        match self {
            Self::Term => process.stop().await,
            Self::Kill => process.sigkill().await,
        }
    }
}

/// The timestamp `second` seconds after the start of the test.
fn ts(second: u64) -> String {
    format!("{}.000100", 1_700_000_000 + second)
}

async fn deliver_message(server: SocketAddr, second: u64) {
    deliver_message_in(server, CHANNEL, second).await;
}

async fn deliver_message_in(server: SocketAddr, channel: &str, second: u64) {
    deliver(server, TEAM, &[event::posted(channel, &event::message(&ts(second), "U0FIRST", "hello"))]).await;
}

async fn gaps(data: &Path) -> Vec<Value> {
    wait_until_idle(data, DEADLINE).await;
    let gaps = json_lines(data, &["gaps"]).await;
    assert_eq!(status(data).await["gaps"], gaps.len(), "{gaps:?}");
    gaps
}

fn gap(reason: &str, channel: Option<&str>, from: u64, to: Option<u64>) -> Value {
    json!({ "team_id": TEAM, "channel_id": channel, "reason": reason, "from": ts(from), "to": to.map(ts),
        "state": if to.is_some() { "missing" } else { "open" } })
}

/// A gap of all channels; `channels_left` channels may miss messages.
fn gap_of_all(reason: &str, from: u64, to: Option<u64>, channels_left: u64) -> Value {
    let mut gap = gap(reason, None, from, to);
    gap["channels_left"] = channels_left.into();
    gap
}

fn downtime(from: u64, to: u64) -> Value {
    gap_of_all("downtime", from, Some(to), 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_three_seconds_is_a_gap_however_the_process_ended() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let mut up = process::up(data).await;
    for second in 0..3 {
        deliver_message(up.address, second).await;
    }
    // A day without events is not a gap.
    deliver_message(up.address, 86_400).await;
    assert_eq!(gaps(data).await, Vec::<Value>::new());

    let mut expected = Vec::new();
    for (end, last) in [
        (ProcessEnd::Term, 86_400),
        (ProcessEnd::Kill, 86_404),
        (ProcessEnd::Kill, 86_408),
        (ProcessEnd::Term, 86_412),
    ] {
        end.apply_to(up.process).await;
        up = process::up(data).await;
        deliver_message(up.address, last + 3).await;
        deliver_message(up.address, last + 4).await;
        expected.push(downtime(last, last + 3));
        assert_eq!(gaps(data).await, expected, "{end:?}");
    }

    let table = annalist_at(data, &["gaps"]).await;
    assert_eq!((table.code, table.stdout.matches("downtime: ").count()), (Some(0), 4), "{table:?}");
    assert!(
        table.stdout.contains("2023-11-15 22:13:20  2023-11-15 22:13:23        3 s  missing"),
        "{}",
        table.stdout
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_event_counts_as_received_before_the_stop() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let ingest = process::ingest(data).await;
    deliver_message(ingest.address, 0).await;
    deliver_message(ingest.address, 5).await;
    ingest.process.sigkill().await;
    let up = process::up(data).await;
    deliver_message(up.address, 8).await;
    assert_eq!(gaps(data).await, [downtime(5, 8)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redelivery_after_a_stop_does_not_end_the_gap() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let up = process::up(data).await;
    deliver_message(up.address, 0).await;
    ProcessEnd::Kill.apply_to(up.process).await;

    // An event from the time in which no process ran: the first attempt finds no listener, a later one the
    // next process.
    let (moved, server) = tokio::sync::watch::channel(up.address);
    let missed = event::posted(CHANNEL, &event::message(&ts(2), "U0FIRST", "missed"));
    let body = event::envelope(TEAM, "EvMissed", &missed);
    let mut slack = EventClient::new(server, RetryDelays::slack(Duration::from_millis(20)));
    let delivery = tokio::spawn(async move { slack.deliver(&body).await });
    let up = process::up(data).await;
    moved.send(up.address).unwrap();
    assert!(delivery.await.unwrap().unwrap() > 1, "it was delivered at the first attempt");
    wait_until_idle(data, DEADLINE).await;
    assert_eq!(gaps(data).await, Vec::<Value>::new(), "its end is not known yet");
    deliver_message(up.address, 9).await;
    assert_eq!(gaps(data).await, [downtime(0, 9)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_two_ingests_only_a_span_that_both_missed_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let _workers = [process::message_writer(data).await, process::channel_indexer(data).await];
    let (one, other) = (process::ingest(data).await, process::ingest(data).await);
    deliver_message(one.address, 0).await;
    deliver_message(other.address, 1).await;
    deliver_message(one.address, 2).await;
    one.process.sigkill().await;
    deliver_message(other.address, 4).await;
    let again = process::ingest(data).await;
    deliver_message(again.address, 6).await;
    deliver_message(other.address, 8).await;
    assert_eq!(gaps(data).await, Vec::<Value>::new());

    ProcessEnd::Term.apply_to(again.process).await;
    ProcessEnd::Kill.apply_to(other.process).await;
    let last = process::ingest(data).await;
    deliver_message(last.address, 20).await;
    assert_eq!(gaps(data).await, [downtime(8, 20)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_of_every_reason_has_its_start_and_its_end() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let up = process::up(data).await;
    let server = up.address;
    let (joined, written, gone) = ("C0JOINED", "C0WRITTEN", "C0GONE");
    for channel in [joined, written, gone, CHANNEL] {
        deliver_message_in(server, channel, 0).await;
    }
    let left =
        |channel, second| json!({ "type": "channel_left", "channel": channel, "event_ts": ts(second) });
    for (channel, second) in [(joined, 10), (written, 11), (gone, 12)] {
        deliver(server, TEAM, &[left(channel, second)]).await;
    }
    let minute = json!({ "type": "app_rate_limited", "token": "x", "team_id": TEAM, "minute_rate_limited": 1_700_000_100,
        "api_app_id": "A0ANNALIST" });
    assert_eq!(
        EventClient::for_address(server, RetryDelays::none()).deliver(&minute.to_string()).await,
        Ok(1)
    );
    let lost_minute = json!({ "team_id": TEAM, "channel_id": null, "reason": "rate_limited",
        "from": "1700000100.000000", "to": "1700000160.000000", "state": "missing", "channels_left": 4 });
    let open = [
        gap("left", Some(joined), 10, None),
        gap("left", Some(written), 11, None),
        gap("left", Some(gone), 12, None),
        lost_minute.clone(),
    ];
    assert_eq!(gaps(data).await, open);

    // Another person joins, then the app does; in the other channel the app's join is missed, and a message
    // proves it.
    let join = |user, second| {
        json!({ "type": "member_joined_channel", "user": user, "channel": joined, "channel_type": "C", "team": TEAM,
            "event_ts": ts(second) })
    };
    deliver(server, TEAM, &[join("U0FIRST", 20)]).await;
    deliver(server, TEAM, &[join(APP, 30)]).await;
    deliver_message_in(server, joined, 40).await;
    deliver_message_in(server, written, 50).await;
    let mut expected = vec![
        gap("left", Some(joined), 10, Some(30)),
        gap("left", Some(written), 11, Some(50)),
        gap("left", Some(gone), 12, None),
        lost_minute,
    ];
    assert_eq!(gaps(data).await, expected);

    // Nothing can be written in an archived channel. The other order of the two events leaves no gap.
    let archived = |channel, second| json!({ "type": "channel_archive", "channel": channel, "user": "U0FIRST", "event_ts": ts(second) });
    deliver(server, TEAM, &[archived(gone, 60)]).await;
    deliver(server, TEAM, &[archived(CHANNEL, 61)]).await;
    deliver(server, TEAM, &[left(CHANNEL, 62)]).await;
    expected[2] = gap("left", Some(gone), 12, Some(60));
    assert_eq!(gaps(data).await, expected);

    // Slack reports a lost token with two events; the first event of any channel afterwards ends the gap.
    let uninstalled = json!({ "type": "app_uninstalled", "event_ts": ts(200) });
    let revoked =
        json!({ "type": "tokens_revoked", "tokens": { "oauth": [], "bot": [APP] }, "event_ts": ts(201) });
    deliver(server, TEAM, &[revoked]).await;
    deliver(server, TEAM, &[uninstalled]).await;
    expected.push(gap_of_all("revoked", 200, None, 4));
    assert_eq!(gaps(data).await, expected);
    deliver_message(server, 300).await;
    *expected.last_mut().unwrap() = gap_of_all("revoked", 200, Some(300), 4);
    assert_eq!(gaps(data).await, expected);

    // An organization's app loses its access and gets it back; the finish of a migration arrives first.
    let access = |kind: &str, second| json!({ "type": kind, "team_ids": [TEAM], "event_ts": ts(second) });
    let migration =
        |kind: &str, second| json!({ "type": kind, "enterprise_id": "E0GRID", "event_ts": ts(second) });
    for event in [
        access("team_access_revoked", 310),
        access("team_access_granted", 320),
        migration("grid_migration_finished", 340),
        migration("grid_migration_started", 330),
    ] {
        deliver(server, TEAM, &[event]).await;
    }
    expected.push(gap_of_all("revoked", 310, Some(320), 4));
    expected.push(gap_of_all("migration", 330, Some(340), 4));
    assert_eq!(gaps(data).await, expected);

    // An event that no version could store, and that an operator drops.
    let mut odd = event::posted(CHANNEL, &event::message(&ts(400), "U0FIRST", "odd"));
    odd["ts"] = "soon".into();
    deliver(server, TEAM, &[odd]).await;
    wait_until_idle(data, DEADLINE).await;
    let quarantined = json_lines(data, &["quarantine", "list"]).await;
    let id = quarantined[0]["id"].as_str().unwrap();
    let dropped = annalist_at(data, &["quarantine", "drop", id]).await.succeeded();
    assert!(dropped.stdout.contains("shows that C0GENERAL lacks it"), "{dropped:?}");
    expected.push(gap("dropped", Some(CHANNEL), 400, Some(400)));
    assert_eq!(gaps(data).await, expected);
    assert_eq!(status(data).await["quarantined"], 0);
}

/// Sends a signed event of this second, which differs from the machine's clock.
async fn send_at_another_time(server: SocketAddr, second: u64) {
    let late = event::posted(CHANNEL, &event::message(&ts(second), "U0FIRST", "an hour ago"));
    let body = event::envelope(TEAM, "EvLate", &late);
    let secrets = SigningSecrets::parse(&SecretString::from(process::SIGNING_SECRET)).unwrap();
    let signed_s = 1_700_000_000 + second + 1;
    let signature = secrets.sign(i64::try_from(signed_s).unwrap(), body.as_bytes());
    let headers = [("x-slack-request-timestamp", signed_s.to_string()), ("x-slack-signature", signature)];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer =
        EventClient::for_address(server, RetryDelays::none()).post_unsigned(&body, &headers).await.unwrap();
    assert_eq!(answer.status.as_u16(), 401);
    assert!(!answer.headers.contains_key("x-slack-no-retry"), "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.body).contains("s away from this machine's clock"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_refused_for_its_time_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let up = process::up(data).await;
    send_at_another_time(up.address, 7).await;
    assert_eq!(gaps(data).await, [gap_of_all("refused", 7, Some(7), 0)]);
    let text = annalist_at(data, &["messages", CHANNEL]).await;
    assert!(!text.stdout.contains("an hour ago"), "{text:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_of_events_refused_for_their_time_starts_at_the_last_received_event() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let up = process::up(data).await;
    deliver_message(up.address, 0).await;
    deliver_message(up.address, 3).await;
    send_at_another_time(up.address, 7).await;
    assert_eq!(gaps(data).await, [gap_of_all("refused", 3, Some(7), 1)]);
}

/// Writes a fact as the historian does.
async fn record(data: &Path, fact: impl FnOnce(&TeamId, &ChannelId) -> Update) {
    let database = embedded::Database::open(data, SystemClock::shared()).unwrap();
    let fact = fact(&TeamId::parse(TEAM).unwrap(), &ChannelId::parse(CHANNEL).unwrap());
    database.archive().write(&fact).await.unwrap();
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_was_read_closes_a_gap_and_is_in_the_coverage() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let up = process::up(data).await;
    deliver_message(up.address, 0).await;
    deliver_message(up.address, 10).await;
    ProcessEnd::Kill.apply_to(up.process).await;
    let up = process::up(data).await;
    deliver_message(up.address, 70).await;
    deliver_message(up.address, 80).await;
    assert_eq!(gaps(data).await, [downtime(10, 70)]);
    ProcessEnd::Term.apply_to(up.process).await;

    let hole = |from: &str, to: &str, reason: &str, state: &str| json!({ "from": from, "to": to, "reason": reason, "state": state });
    let live = |from, to| json!({ "from": ts(from), "to": ts(to), "source": "live" });
    let before = hole("0.000000", &ts(0), "before_joining", "missing");
    let mut expected = json!({ "team_id": TEAM, "channel_id": CHANNEL, "name": null,
        "spans": [live(0, 10), live(70, 80)],
        "holes": [before, hole(&ts(10), &ts(70), "downtime", "missing")],
        "last_message_timestamp": 1_700_000_080, "limited_before": null, "verified": null, "expired_before": null });
    assert_eq!(json_lines(data, &["coverage"]).await, [expected.clone()]);

    // First the newest page is read, then Slack reports its plan's limit for the older part.
    let clock = |second| Ts::parse(&ts(second)).unwrap();
    let read = |from, to| {
        move |team: &_, channel: &_| {
            filled_update(team, channel, &clock(from), &clock(to), SpanSource::History)
        }
    };
    record(data, read(40, 70)).await;
    assert_eq!(json_lines(data, &["gaps"]).await, [downtime(10, 70)]);
    record(data, |team, channel| plan_limit_update(team, channel, &clock(30))).await;
    let lost = json_lines(data, &["gaps"]).await;
    assert_eq!((&lost[0]["state"], &lost[0]["channels_left"]), (&"lost".into(), &1.into()));
    assert_eq!(status(data).await["gaps"], 0);
    let covered = json_lines(data, &["coverage", CHANNEL]).await;
    let holes = json!([
        hole("0.000000", &ts(0), "plan_limit", "lost"),
        hole(&ts(10), &ts(30), "downtime", "lost"),
        hole(&ts(30), &ts(40), "downtime", "missing"),
    ]);
    assert_eq!(covered[0]["holes"], holes);

    // An export contains the whole span.
    record(data, |team, channel| {
        filled_update(team, channel, &Ts::parse("1600000000.000000").unwrap(), &clock(75), SpanSource::Import)
    })
    .await;
    let filled = json_lines(data, &["gaps"]).await;
    assert_eq!((&filled[0]["state"], &filled[0]["channels_left"]), (&"filled".into(), &0.into()));
    assert_eq!(status(data).await["gaps"], 0);
    expected["holes"] = json!([hole("0.000000", "1600000000.000000", "plan_limit", "lost")]);
    expected["spans"] = json!([
        { "from": "1600000000.000000", "to": ts(75), "source": "import" },
        live(0, 10),
        { "from": ts(40), "to": ts(70), "source": "history" },
        live(70, 80),
    ]);
    expected["limited_before"] = ts(30).into();
    assert_eq!(json_lines(data, &["coverage"]).await, [expected]);
    let table = annalist_at(data, &["coverage", CHANNEL]).await;
    assert!(table.stdout.contains("import: read from an export"), "{table:?}");
    let unknown = annalist_at(data, &["coverage", "#nowhere"]).await;
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""));

    let database = rusqlite::Connection::open(data.join(embedded::DATABASE_FILE)).unwrap();
    let row = database
        .query_row("SELECT slack_cid, last_message_timestamp FROM channel_configuration", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })
        .unwrap();
    assert_eq!(row, (CHANNEL.to_owned(), 1_700_000_080));
}

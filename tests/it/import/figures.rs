//! A message counts the same whether it came as an event, from history or from an export, or from all of them
//! in any order.

use std::sync::Arc;

use jiff::Timestamp;
use ports::archive::Archive;
use ports::clock::TimestampMs;
use reader::figures::json as report_json;
use reader::figures::making::{ReportScope, make_report};
use reader::figures::message::{ThreadFigures, with_own_figures};
use reader::figures::period::Period;
use reader::find;
use reader::joined::ChannelOfTeam;
use rules::history::{self, HistoryMessage};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::event;
use testkit::deliveries::delivery;
use testkit::memory::archive::MemoryArchive;
use workers::import::{ImportFiles, ImportOptions, ImportTarget, import};
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};
use workers::store::store_history;

use super::export::TEAM;
use super::overlapping::InMemoryExport;
use crate::convergence::queue;

const CHANNEL: &str = "C1";

/// Tuesday of 2020-W37.
const FIRST_S: usize = 1_599_600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilledBy {
    Events,
    History,
    Export,
}

/// Each source alone, and all three in every order.
const ORDERS: [&[FilledBy]; 9] = [
    &[FilledBy::Events],
    &[FilledBy::History],
    &[FilledBy::Export],
    &[FilledBy::Events, FilledBy::History, FilledBy::Export],
    &[FilledBy::Events, FilledBy::Export, FilledBy::History],
    &[FilledBy::History, FilledBy::Events, FilledBy::Export],
    &[FilledBy::History, FilledBy::Export, FilledBy::Events],
    &[FilledBy::Export, FilledBy::Events, FilledBy::History],
    &[FilledBy::Export, FilledBy::History, FilledBy::Events],
];

fn ts(hour: usize) -> String {
    format!("{}.000100", FIRST_S + hour * 3_600)
}

/// Messages of every kind that counts, and of one that does not: their events, and the messages as history
/// and exports list them.
fn events_and_listed() -> (Vec<Value>, Vec<Value>) {
    let (mut events, mut listed) = (Vec::new(), Vec::new());
    let mut post = |message: &Value| {
        events.push(event::posted(CHANNEL, message));
        listed.push(message.clone());
    };
    post(&event::message(&ts(0), "U0", "hello <@U2> and <@U1|ana>,\n\u{3000}bye"));
    post(&event::message(&ts(1), "U1", "to be edited"));
    post(&event::message(&ts(2), "U2", "a root"));
    let reply = event::reply(&ts(3), &ts(2), "U0", "a reply to <@U2>");
    post(&event::with_fields(reply, [("parent_user_id", "U2".into())]));
    let broadcast = event::reply(&ts(4), &ts(2), "U1", "a reply for all");
    post(&event::subtyped(broadcast, "thread_broadcast", json!({})));
    post(&event::file_share(&ts(5), "U0", "with files", &["F1", "F2"]));
    post(&event::subtyped(event::message(&ts(6), "U2", "waves"), "me_message", json!({})));
    post(&event::bot_message(&ts(7), "B1", "app", "of an app"));
    post(&event::subtyped(event::message(&ts(8), "U1", "has joined"), "channel_join", json!({})));
    post(&event::message(&ts(9), "U1", &"word ".repeat(8_000)));

    let edited = event::edited(&listed[1], &ts(20), "was edited, with <@U0> and more words");
    events.push(event::changed(CHANNEL, &listed[1], &edited, &ts(20)));
    listed[1] = edited;
    for (user, name) in [("U0", "tada"), ("U1", "tada"), ("U1", "eyes")] {
        events.push(event::reaction_added(CHANNEL, &ts(2), user, name, &ts(21)));
    }
    listed[2]["reactions"] = json!([
        { "name": "tada", "count": 2, "users": ["U0", "U1"] }, { "name": "eyes", "count": 1, "users": ["U1"] },
    ]);
    listed[2]["thread_ts"] = ts(2).into();
    listed[2]["reply_count"] = 2.into();
    // In an event, a message with a file has a subtype; in history and exports it has none.
    listed[5].as_object_mut().unwrap().remove("subtype");
    (events, listed)
}

/// The message of the previous week that every archive contains first.
fn opener() -> Value {
    json!([event::message(&format!("{}.000100", FIRST_S - 7 * 86_400), "U0", "opens the channel")])
}

async fn import_day(archive: &Arc<MemoryArchive>, list: &Value) {
    let target =
        ImportTarget { archive: Arc::clone(archive) as Arc<dyn Archive>, files: ImportFiles::Skipped };
    let options = ImportOptions { team: None, tokens: None, now: TimestampMs(1_700_000_000_000) };
    let sum = import(InMemoryExport::with_day(list), &target, &options, &mut |_| {}).await.unwrap();
    assert_eq!((sum.skipped, sum.problems), (0, 0));
}

async fn archive(order: &[FilledBy]) -> Arc<MemoryArchive> {
    let archive = Arc::new(MemoryArchive::new());
    import_day(&archive, &opener()).await;
    let (events, listed) = events_and_listed();
    for source in order {
        match source {
            FilledBy::Events => {
                let writer = MessageWriter::new(archive.clone(), queue());
                for (number, event) in events.iter().enumerate() {
                    let job = delivery(&event::envelope(TEAM, &format!("Ev{number}"), event));
                    assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done], "{event}");
                }
            }
            FilledBy::History => {
                let read = |message: &Value| {
                    history::read(&team(), &channel(), &to_raw_value(message).unwrap()).unwrap()
                };
                let messages: Vec<HistoryMessage> = listed.iter().map(read).collect();
                assert!(store_history(&*archive, &messages).await.iter().all(Result::is_ok));
            }
            FilledBy::Export => import_day(&archive, &listed.clone().into()).await,
        }
    }
    archive
}

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

fn channel() -> ChannelId {
    ChannelId::parse(CHANNEL).unwrap()
}

/// The figures of the week and of each message, without the coverage of the channel.
async fn counted(archive: &MemoryArchive) -> Value {
    let (team, now) = (team(), Timestamp::from_second(1_700_000_000).unwrap());
    let week = Period::week("2020-W37").unwrap();
    let mut report = report_json::report_json(
        &make_report(archive, &team, ReportScope::Team, week, None, now).await.unwrap(),
    );
    report.as_object_mut().unwrap().retain(|name, _| name != "basis" && name != "incomplete_days");
    let channel_of_team = ChannelOfTeam { team: team.clone(), channel: channel() };
    let channel = find::joined_channel(archive, &channel_of_team, &[team]).await.unwrap();
    let mut threads = ThreadFigures::new(&channel);
    let mut messages = Vec::new();
    for hour in 0..10 {
        let row = channel.message(&Ts::parse(&ts(hour)).unwrap()).await.unwrap().unwrap();
        let mut seen = with_own_figures(&row).unwrap();
        threads.add(&mut seen).await.unwrap();
        let figures = [
            "cid_ts",
            "date",
            "word_count",
            "mentions",
            "reactions_text",
            "reaction_count",
            "parent_user_id",
            "replies",
            "reply_count",
            "is_threadhead",
            "is_threaded",
        ];
        messages.push(figures.map(|name| seen.as_json()[name].clone()));
    }
    json!({ "report": report, "messages": messages })
}

#[tokio::test]
async fn a_message_counts_the_same_from_every_source_and_in_any_order() {
    let expected = counted(&*archive(ORDERS[0]).await).await;
    let figure = |name: &str| expected["report"]["figures"][name]["value"].clone();
    let found = ["messages", "posters", "replies", "threads", "reactions", "bot_messages"].map(figure);
    assert_eq!(found, [8, 3, 2, 1, 3, 1].map(Value::from), "{expected}");
    assert_eq!(expected["messages"][9][2], 8_000);
    assert_eq!(expected["messages"][2][8], 2, "the root's replies");
    for order in &ORDERS[1..] {
        assert_eq!(counted(&*archive(order).await).await, expected, "{order:?}");
    }
}

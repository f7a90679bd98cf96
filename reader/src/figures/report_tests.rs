//! Reports compared with a recount of the rows of the archive.

use jiff::Timestamp;
use ports::archive::erasure::ExpiryFact;
use ports::archive::{Archive, ArchiveExt, ItemKey};
use proptest::prelude::*;
use rules::filled::{SpanSource, filled_update};
use serde_json::{Value, json};
use slack::ids::{Ts, UserId};
use testkit::memory::archive::MemoryArchive;
use testkit::recount::{RecountRows, RecountScope, assert_recounted_as};

use super::making::{ReportScope, make_report};
use super::period::Period;
use super::report::{FiguresReport, Scope};
use super::report_model::{CHANNELS, DAY, MONDAY, ModelMessage, ReportModel, people};
use super::{json, message};
use crate::find;
use crate::fixture::{channel_id, person, set, team};
use crate::joined::ChannelOfTeam;

async fn report(archive: &MemoryArchive, scope: &Scope, period: Period) -> FiguresReport {
    let requested_scope = match scope {
        Scope::Team => ReportScope::Team,
        Scope::Channel(channel) => {
            let location = ChannelOfTeam { team: team(), channel: channel.clone() };
            ReportScope::Channel(find::joined_channel(archive, &location, &[team()]).await.unwrap())
        }
        Scope::User(user) => ReportScope::User(user.clone()),
    };
    make_report(archive, &team(), requested_scope, period, None, now()).await.unwrap()
}

/// A time after all messages.
fn now() -> Timestamp {
    Timestamp::from_second(MONDAY + 14 * DAY).unwrap()
}

fn any_message() -> impl Strategy<Value = ModelMessage> {
    let set = |most| prop::collection::btree_set(0..6_usize, 0..most);
    let reacted = prop::collection::btree_set((any::<bool>(), 0..6_usize), 0..4);
    let position_and_kind = (0..3_usize, 0..28 * DAY, 0..6_usize, 0..7_usize);
    (position_and_kind, 0..9_usize, set(3), reacted, prop::option::of(0..50_usize)).prop_map(
        |((channel, second, author, kind), words, mut mentioned, reacted, root)| {
            mentioned.remove(&author);
            ModelMessage { channel, second, author, kind, words, mentioned, reacted, root }
        },
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn pairs(list: &Value, name: &str, count: &str) -> Vec<(String, u64)> {
    let pair = |row: &Value| (row[name].as_str().unwrap().to_owned(), row[count].as_u64().unwrap());
    list.as_array().unwrap().iter().map(pair).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_figure_equals_a_recount(messages in prop::collection::vec(any_message(), 0..70), index in 0..3_usize) {
        let (channel, user) = (CHANNELS[index], people()[index].0);
        runtime().block_on(async {
            let archive = ReportModel::new(messages).archive().await;
            let rows = RecountRows::new(archive.items());
            let period = Period::week("2026-W46").unwrap();
            for (scope, recount_scope) in [
                (Scope::Team, RecountScope::Team),
                (Scope::Channel(channel_id(channel)), RecountScope::Channel(channel)),
                (Scope::User(UserId::parse(user).unwrap()), RecountScope::User(user)),
            ] {
                let found = json::report_json(&report(&archive, &scope, period).await).to_string();
                let recounted = rows.report(recount_scope, period.from(), period.to());
                assert_recounted_as(&found, &recounted, &format!("{recount_scope:?}"));
            }
        });
    }
}

fn plain(channel: usize, second: i64, author: usize, root: Option<usize>) -> ModelMessage {
    ModelMessage {
        channel,
        second,
        author,
        kind: 3,
        words: 2,
        mentioned: [].into(),
        reacted: [].into(),
        root,
    }
}

#[tokio::test]
async fn accounts_and_kinds_come_from_the_directory() {
    let messages = (0..6).map(|author| plain(0, 14 * DAY + author as i64, author, None)).collect();
    let found = json::report_json(
        &report(&ReportModel::new(messages).archive().await, &Scope::Team, Period::week("2026-W46").unwrap())
            .await,
    );
    assert_eq!(
        found["figures"]["all_users"],
        json!({ "value": 4, "previous": null, "delta": null, "percent": null })
    );
    assert_eq!(found["figures"]["active_users"]["value"], 2);
    assert_eq!(
        found["figures"]["bot_messages"],
        json!({ "value": 1, "previous": 0, "delta": 1, "percent": null })
    );
    let kinds: Vec<&str> =
        found["users"].as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["member", "guest", "stranger", "deleted", "stranger"]);
    assert_eq!(found["users"][0]["name"], "ana");
    assert_eq!(found["users"][4]["cumulative_share"], json!(1.0));
    let zones: Vec<_> = pairs(&found["timezones"], "tz", "people");
    assert_eq!(zones, [("unknown".to_owned(), 3), ("Asia/Kathmandu".to_owned(), 1), ("X".to_owned(), 1)]);
}

#[tokio::test]
async fn a_late_reply_counts_for_its_root_and_a_person_sees_both_directions() {
    let mut messages = vec![
        plain(0, 14 * DAY, 0, None),
        plain(0, 14 * DAY + 10, 1, Some(0)),
        plain(0, 22 * DAY, 2, Some(0)),
        plain(1, 15 * DAY, 1, None),
    ];
    messages[3].mentioned = [0].into();
    messages[0].reacted = [(true, 1), (false, 1), (true, 0)].into();
    let archive = ReportModel::new(messages).archive().await;
    let week = Period::week("2026-W46").unwrap();
    let team = json::report_json(&report(&archive, &Scope::Team, week).await);
    assert_eq!(team["figures"]["replies"]["value"], 1);
    assert_eq!(team["most_replied"][0]["replies"], 2);
    let permalink = format!("https://slack.com/archives/C1/p{MONDAY}000000");
    assert_eq!(team["most_replied"][0]["permalink"], permalink);
    assert_eq!(team["report_id"], "team/2026-11-09/2026-11-16");
    let ana = json::report_json(&report(&archive, &Scope::User(UserId::parse("U1").unwrap()), week).await);
    assert_eq!(ana["report_id"], "user/U1/2026-11-09/2026-11-16");
    assert_eq!(ana["most_replied"], team["most_replied"]);
    let bo = |count| json!([{ "user_id": "U2", "name": "bo", "count": count }]);
    assert_eq!(ana["partners"]["reactions"], json!({ "given": [], "received": bo(2) }));
    assert_eq!(ana["partners"]["replies"], json!({ "given": [], "received": bo(1) }));
    assert_eq!(ana["partners"]["mentions"], json!({ "given": [], "received": bo(1) }));
    assert_eq!((&ana["users"][0]["rank"], &ana["users"][0]["share"]), (&json!(2), &json!(1.0 / 3.0)));
    assert_eq!(ana["users"][0]["mentions_received"], 1);
}

#[tokio::test]
async fn the_basis_changes_only_if_the_shown_data_changes() {
    let messages = vec![plain(0, 14 * DAY, 0, None), plain(0, 14 * DAY + 10, 1, Some(0))];
    let archive = ReportModel::new(messages).archive().await;
    let week = Period::week("2026-W46").unwrap();
    let basis = async || report(&archive, &Scope::Team, week).await.basis;
    let mut last = basis().await;
    assert_eq!(basis().await, last);
    let ts = Ts::parse(&format!("{MONDAY}.000000")).unwrap();
    let key = || ItemKey::message(&team(), &channel_id("C1"), &ts);
    let edited = json!({ "content_version": "2.000000/2.000000/y", "text": "another" });
    let reacted = json!({ "reaction#tada#U6": "000000000001.000000/added" });
    for change in [edited, reacted, json!({ "deleted": true })] {
        set(&archive, key(), change.clone()).await;
        let changed = basis().await;
        assert_ne!(changed, last, "{change}");
        last = changed;
    }
    person(&archive, "U1", json!({ "tz_offset": 0 })).await;
    assert_ne!(basis().await, last, "the time zone changed");
}

#[tokio::test]
async fn incomplete_days_are_listed_up_to_now() {
    let messages = vec![plain(0, 15 * DAY, 0, None), plain(0, 16 * DAY, 0, None)];
    let archive = ReportModel::new(messages).archive().await;
    let week = Period::week("2026-W46").unwrap();
    let days = async || report(&archive, &Scope::Team, week).await.incomplete_days;
    assert_eq!(days().await, ["2026-11-09"], "before the first message that was delivered as an event");
    let ts = |second: i64| Ts::parse(&format!("{}.000000", MONDAY + second)).unwrap();
    archive
        .write(&filled_update(&team(), &channel_id("C1"), &ts(-DAY), &ts(3 * DAY), SpanSource::Import))
        .await
        .unwrap();
    assert_eq!(days().await, [""; 0]);
    let long_ago = report(&archive, &Scope::Team, Period::week("2020-W01").unwrap()).await;
    assert_eq!(
        (long_ago.incomplete_days.len(), long_ago.channels.len()),
        (7, 0),
        "before the archive begins"
    );
    let ahead = json::report_json(&report(&archive, &Scope::Team, Period::week("2030-W01").unwrap()).await);
    assert_eq!((&ahead["is_over"], &ahead["figures"]["messages"]["value"]), (&json!(false), &json!(0)));
    assert_eq!(ahead["figures"]["median_words"]["value"], Value::Null);
    assert_eq!(ahead["incomplete_days"], json!([]));
    let expired = async || report(&archive, &Scope::Team, week).await.expired_days;
    assert_eq!(expired().await, [""; 0]);
    archive.write(&ExpiryFact::expire(&team(), None, &ts(2 * DAY))).await.unwrap();
    assert_eq!(expired().await, ["2026-11-09", "2026-11-10"]);
}

#[tokio::test]
async fn an_erased_person_and_an_erased_message_leave_no_trace() {
    let messages = vec![plain(0, 14 * DAY, 0, None), plain(0, 15 * DAY, 1, None)];
    let archive = ReportModel::new(messages).archive().await;
    let ts = Ts::parse(&format!("{MONDAY}.000000")).unwrap();
    archive.erase(&ItemKey::message(&team(), &channel_id("C1"), &ts)).await.unwrap();
    archive.erase(&ItemKey::user(&team(), &UserId::parse("U1").unwrap())).await.unwrap();
    let found = json::report_json(&report(&archive, &Scope::Team, Period::week("2026-W46").unwrap()).await);
    assert_eq!(found["figures"]["messages"]["value"], 1);
    assert_eq!(found["figures"]["all_users"]["value"], 3);
    assert!(!found.to_string().contains("ana") && !found.to_string().contains("U1"), "{found}");
}

#[tokio::test]
async fn the_figures_of_single_messages_match_channelstats() {
    let mut messages = vec![
        plain(0, 14 * DAY, 0, None),
        plain(0, 14 * DAY + 10, 1, Some(0)),
        plain(0, 14 * DAY + 20, 0, Some(0)),
    ];
    messages[0].mentioned = [1, 2].into();
    messages[0].reacted = [(true, 1), (true, 2), (false, 1)].into();
    let archive = ReportModel::new(messages).archive().await;
    let location = ChannelOfTeam { team: team(), channel: channel_id("C1") };
    let channel = find::joined_channel(&archive, &location, &[team()]).await.unwrap();
    let mut threads = message::ThreadFigures::new(&channel);
    let mut seen = Vec::new();
    for n in 0..3 {
        let ts = Ts::parse(&format!("{}.{n:06}", MONDAY + n * 10)).unwrap();
        let row = channel.message(&ts).await.unwrap().unwrap();
        let mut figures = message::with_own_figures(&row).unwrap();
        threads.add(&mut figures).await.unwrap();
        seen.push(figures);
    }
    let root = json!({
        "cid_ts": format!("C1_{MONDAY}.000000"), "date": "2026-11-09", "word_count": 4, "mentions": "U2:U3",
        "reactions_text": "eyes:U2,tada:U2:U3", "reaction_count": 3, "parent_user_id": "U1",
        "replies": format!("U2:{}.000001,U1:{}.000002", MONDAY + 10, MONDAY + 20), "reply_count": 2,
        "is_threadhead": true, "is_threaded": true,
    });
    let reply = json!({
        "cid_ts": format!("C1_{}.000002", MONDAY + 20), "date": "2026-11-09", "word_count": 2, "mentions": "",
        "reactions_text": "", "reaction_count": 0, "parent_user_id": "U1", "replies": "", "reply_count": 0,
        "is_threadhead": false, "is_threaded": true,
    });
    for (figures, expected) in [(&seen[0], root), (&seen[2], reply)] {
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(figures.as_json()[name], *value, "{name}");
        }
    }
}

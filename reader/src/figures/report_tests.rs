//! Reports compared with a recount of the messages that went into the archive, which goes through all of them for each
//! number.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveExt, ItemKey, Update};
use proptest::prelude::*;
use rules::filled::{Source, reached};
use rules::public_mark;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::memory::archive::MemoryArchive;

use super::making::{Asked, make};
use super::period::Period;
use super::report::{Report, Scope};
use super::{json, message};
use crate::find;
use crate::joined::ChannelPlace;

const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
const DAY: i64 = 86_400;
/// Monday of 2026-W46.
const MONDAY: i64 = 1_794_182_400;

/// Ids, what the directory says, and minutes ahead of UTC: a member, a guest, one of another workspace, a deactivated
/// person, an app, and one of whom nothing is known.
fn people() -> Vec<(&'static str, Option<Value>, i64)> {
    vec![
        (
            "U1",
            Some(json!({ "name": "ana", "tz": "Asia/Kathmandu", "tz_offset": 20_700, "raw_event": "{}" })),
            345,
        ),
        ("U2", Some(json!({ "name": "bo", "raw_event": r#"{"is_restricted":true}"# })), 0),
        ("U3", Some(json!({ "tz": "X", "tz_offset": -34_200, "raw_event": r#"{"team_id":"T2"}"# })), -570),
        ("U4", Some(json!({ "name": "di", "tz_offset": 3_600, "deleted": true, "raw_event": "{}" })), 60),
        ("U5", Some(json!({ "name": "app", "is_bot": true, "raw_event": "{}" })), 0),
        ("U6", None, 0),
    ]
}

/// A message: where, when, by whom, what kind of it, its words, whom it mentions, who reacts, and to which earlier message of
/// its channel it replies.
#[derive(Debug, Clone)]
struct Told {
    channel: usize,
    second: i64,
    author: usize,
    kind: usize,
    words: usize,
    mentioned: BTreeSet<usize>,
    reacted: BTreeSet<(bool, usize)>,
    root: Option<usize>,
}

impl Told {
    fn is_deleted(&self) -> bool {
        self.kind == 0
    }

    fn is_notice(&self) -> bool {
        self.kind == 1
    }

    fn is_counted(&self) -> bool {
        !self.is_deleted() && !self.is_notice() && self.author != 4
    }
}

/// Messages with their timestamps, oldest first, and with the places of their roots in the list.
struct Model {
    told: Vec<(Told, String)>,
    roots: Vec<Option<usize>>,
}

impl Model {
    fn new(mut told: Vec<Told>) -> Self {
        told.sort_by_key(|told| told.second);
        let told: Vec<(Told, String)> = told
            .into_iter()
            .enumerate()
            .map(|(n, told)| {
                let ts = format!("{}.{n:06}", MONDAY - 14 * DAY + told.second);
                (told, ts)
            })
            .collect();
        let mut roots: Vec<Option<usize>> = Vec::new();
        for (n, (one, _)) in told.iter().enumerate() {
            let before: Vec<usize> = (0..n)
                .filter(|other| {
                    let is_reply = roots[*other].is_some();
                    told[*other].0.channel == one.channel && !is_reply && !told[*other].0.is_notice()
                })
                .collect();
            roots.push(one.root.filter(|_| !before.is_empty()).map(|root| before[root % before.len()]));
        }
        Self { told, roots }
    }

    async fn archive(&self) -> MemoryArchive {
        let archive = MemoryArchive::new();
        for channel in CHANNELS {
            archive.write(&public_mark::opening(&team(), &channel_id(channel))).await.unwrap();
        }
        for (id, row, _) in people() {
            if let Some(row) = row {
                set(&archive, ItemKey::user(&team(), &UserId::parse(id).unwrap()), row).await;
            }
        }
        for (n, (told, ts)) in self.told.iter().enumerate() {
            let ts = Ts::parse(ts).unwrap();
            let mut row = json!({ "ts": ts, "user": people()[told.author].0, "raw_event": "{}",
                "content_version": format!("{}/{}/x", ts.padded(), ts.padded()) });
            let mentions = told.mentioned.iter().map(|of| format!("<@{}>", people()[*of].0));
            row["text"] = mentions
                .chain((0..told.words).map(|_| "word".to_owned()))
                .collect::<Vec<_>>()
                .join("\n")
                .into();
            match told.kind {
                0 => row["deleted"] = true.into(),
                1 => row["subtype"] = "channel_join".into(),
                2 => row["subtype"] = "file_share".into(),
                _ => {}
            }
            for (is_tada, of) in &told.reacted {
                let name = if *is_tada { "tada" } else { "eyes" };
                row[format!("reaction#{name}#{}", people()[*of].0)] = "000000000001.000000/added".into();
            }
            if let Some(root) = self.roots[n] {
                row["thread_ts"] = self.told[root].1.as_str().into();
                row["parent"] = format!("thread#T1#{}", self.told[root].1).into();
            }
            set(&archive, ItemKey::message(&team(), &channel_id(CHANNELS[told.channel]), &ts), row).await;
        }
        archive
    }

    /// Counted messages of a scope between two seconds.
    fn counted(&self, scope: &Scope, from: i64, to: i64) -> Vec<usize> {
        let within = |told: &Told| (from..to).contains(&(MONDAY - 14 * DAY + told.second));
        let is_in_scope = |told: &Told| match scope {
            Scope::Team => true,
            Scope::Channel(channel) => CHANNELS[told.channel] == channel.as_str(),
            Scope::User(user) => people()[told.author].0 == user.as_str(),
        };
        let places = 0..self.told.len();
        places.filter(|n| within(&self.told[*n].0) && is_in_scope(&self.told[*n].0)).collect()
    }

    fn figures(&self, scope: &Scope, from: i64, to: i64) -> BTreeMap<&'static str, Value> {
        let all = self.counted(scope, from, to);
        let told = |n: &usize| &self.told[*n].0;
        let counted: Vec<&usize> = all.iter().filter(|n| told(n).is_counted()).collect();
        let authors: BTreeSet<usize> = counted.iter().map(|n| told(n).author).collect();
        let words = |n: &usize| told(n).words + told(n).mentioned.len();
        let per_author = |count: &dyn Fn(&usize) -> usize| -> Vec<usize> {
            let of =
                |author: &usize| counted.iter().filter(|n| told(n).author == *author).map(|n| count(n)).sum();
            let mut counts: Vec<usize> = authors.iter().map(of).collect();
            counts.sort_unstable();
            counts
        };
        let median = |counts: &[usize]| match counts.len() {
            0 => Value::Null,
            length if length % 2 == 1 => json!(counts[length / 2]),
            length => {
                let twice = counts[length / 2 - 1] + counts[length / 2];
                if twice.is_multiple_of(2) { json!(twice / 2) } else { json!(twice as f64 / 2.0) }
            }
        };
        let all_words: usize = counted.iter().map(|n| words(n)).sum();
        let mut by_words = per_author(&words);
        by_words.reverse();
        let half =
            (0..=by_words.len()).find(|n| by_words[..*n].iter().sum::<usize>() * 2 >= all_words).unwrap();
        let wrote_before = |author: usize| {
            let in_scope = self.counted(scope, 0, from);
            in_scope.iter().any(|n| told(n).author == author && !told(n).is_notice())
        };
        let threads: BTreeSet<usize> = counted.iter().filter_map(|n| self.roots[**n]).collect();
        let channels: BTreeSet<usize> = counted.iter().map(|n| told(n).channel).collect();
        BTreeMap::from([
            ("posters", json!(authors.len())),
            ("messages", json!(counted.len())),
            ("words", json!(all_words)),
            ("median_messages", median(&per_author(&|_| 1))),
            ("median_words", median(&per_author(&words))),
            ("top_ten_share", if counted.is_empty() { Value::Null } else { json!(1) }),
            ("half_of_words", json!(half)),
            ("first_time_posters", json!(authors.iter().filter(|author| !wrote_before(**author)).count())),
            ("channels_used", json!(channels.len())),
            ("reactions", json!(counted.iter().map(|n| told(n).reacted.len()).sum::<usize>())),
            ("replies", json!(counted.iter().filter(|n| self.roots[***n].is_some()).count())),
            ("threads", json!(threads.len())),
            ("bot_messages", json!(all.iter().filter(|n| told(n).author == 4 && told(n).kind > 1).count())),
        ])
    }

    fn hours(&self, counted: &[usize]) -> Value {
        let mut hours = vec![vec![0; 24]; 7];
        for n in counted.iter().filter(|n| self.told[**n].0.is_counted()) {
            let told = &self.told[*n].0;
            let local = told.second + people()[told.author].2 * 60 + 7 * DAY;
            hours[(local / DAY % 7) as usize][(local % DAY / 3_600) as usize] += 1;
        }
        json!(hours)
    }

    fn most_replied(&self, counted: &[usize]) -> Vec<(String, u64)> {
        let replies = |root: usize| {
            let of_root = (0..self.told.len()).filter(|n| self.roots[*n] == Some(root));
            of_root.filter(|n| !self.told[*n].0.is_deleted()).count() as u64
        };
        let is_known = |root: usize| {
            counted.iter().any(|n| self.roots[*n] == Some(root) && self.told[*n].0.is_counted())
        };
        let roots = counted.iter().filter(|n| self.told[**n].0.is_counted() && is_known(**n));
        let mut found: Vec<(String, u64)> = roots.map(|n| (self.told[*n].1.clone(), replies(*n))).collect();
        found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        found.truncate(10);
        found
    }
}

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel_id(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

async fn set(archive: &MemoryArchive, key: ItemKey, row: Value) {
    let set = row.as_object().cloned().unwrap();
    archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
}

async fn report(archive: &MemoryArchive, scope: &Scope, period: Period) -> Report {
    let asked = match scope {
        Scope::Team => Asked::Team,
        Scope::Channel(channel) => {
            let place = ChannelPlace { team: team(), channel: channel.clone() };
            Asked::Channel(find::joined(archive, &place, &[team()]).await.unwrap())
        }
        Scope::User(user) => Asked::User(user.clone()),
    };
    make(archive, &team(), asked, period, None, now()).await.unwrap()
}

/// After everything.
fn now() -> Timestamp {
    Timestamp::from_second(MONDAY + 14 * DAY).unwrap()
}

fn told() -> impl Strategy<Value = Told> {
    let set = |most| prop::collection::btree_set(0..6_usize, 0..most);
    let reacted = prop::collection::btree_set((any::<bool>(), 0..6_usize), 0..4);
    let where_and_when = (0..3_usize, 0..28 * DAY, 0..6_usize, 0..7_usize);
    (where_and_when, 0..9_usize, set(3), reacted, prop::option::of(0..50_usize)).prop_map(
        |((channel, second, author, kind), words, mut mentioned, reacted, root)| {
            mentioned.remove(&author);
            Told { channel, second, author, kind, words, mentioned, reacted, root }
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
    fn every_figure_is_what_a_recount_finds(told in prop::collection::vec(told(), 0..70), of in 0..3_usize) {
        let model = Model::new(told);
        let user = Scope::User(UserId::parse(people()[of].0).unwrap());
        runtime().block_on(async {
            let archive = model.archive().await;
            let period = Period::week("2026-W46").unwrap();
            for scope in [Scope::Team, Scope::Channel(channel_id(CHANNELS[of])), user] {
                let found = json::of(&report(&archive, &scope, period).await);
                let within = model.counted(&scope, MONDAY, MONDAY + 7 * DAY);
                let now = model.figures(&scope, MONDAY, MONDAY + 7 * DAY);
                let before = model.figures(&scope, MONDAY - 7 * DAY, MONDAY);
                for (name, value) in now {
                    prop_assert_eq!(&found["figures"][name]["value"], &value, "{} of {:?}", name, scope);
                    prop_assert_eq!(&found["figures"][name]["previous"], &before[name], "{} before", name);
                }
                prop_assert_eq!(&found["weekday_hours"], &model.hours(&within));
                let most_replied = pairs(&found["most_replied"], "ts", "replies");
                if scope == Scope::Team {
                    prop_assert_eq!(most_replied, model.most_replied(&within));
                }
                let counted = || within.iter().map(|n| &model.told[*n]).filter(|(told, _)| told.is_counted());
                for (id, messages) in pairs(&found["users"], "user_id", "messages") {
                    let own = counted().filter(|(told, _)| people()[told.author].0 == id).count();
                    prop_assert_eq!(messages, own as u64);
                }
                for (id, messages) in pairs(&found["channels"], "channel_id", "messages") {
                    let own = counted().filter(|(told, _)| CHANNELS[told.channel] == id).count();
                    prop_assert_eq!(messages, own as u64);
                }
                for (name, count) in pairs(&found["emoji"], "name", "count") {
                    let of = counted().flat_map(|(told, _)| &told.reacted);
                    prop_assert_eq!(count, of.filter(|(is_tada, _)| *is_tada == (name == "tada")).count() as u64);
                }
                for (ts, count) in pairs(&found["most_reacted"], "ts", "reactions") {
                    prop_assert_eq!(count, counted().find(|told| told.1 == ts).unwrap().0.reacted.len() as u64);
                }
                let sum = |list: &Value, name: &str| -> u64 {
                    list.as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap_or_else(|| row.as_u64().unwrap())).sum()
                };
                for list in ["channels", "users", "timezones", "hours", "weekdays"] {
                    prop_assert_eq!(sum(&found[list], "messages"), counted().count() as u64, "{}", list);
                }
            }
            Ok(())
        })?;
    }
}

fn plain(channel: usize, second: i64, author: usize, root: Option<usize>) -> Told {
    Told { channel, second, author, kind: 3, words: 2, mentioned: [].into(), reacted: [].into(), root }
}

#[tokio::test]
async fn accounts_and_kinds_are_those_of_the_directory() {
    let told = (0..6).map(|author| plain(0, 14 * DAY + author as i64, author, None)).collect();
    let found = json::of(
        &report(&Model::new(told).archive().await, &Scope::Team, Period::week("2026-W46").unwrap()).await,
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
    let mut told = vec![
        plain(0, 14 * DAY, 0, None),
        plain(0, 14 * DAY + 10, 1, Some(0)),
        plain(0, 22 * DAY, 2, Some(0)),
        plain(1, 15 * DAY, 1, None),
    ];
    told[3].mentioned = [0].into();
    told[0].reacted = [(true, 1), (false, 1), (true, 0)].into();
    let archive = Model::new(told).archive().await;
    let week = Period::week("2026-W46").unwrap();
    let team = json::of(&report(&archive, &Scope::Team, week).await);
    assert_eq!(team["figures"]["replies"]["value"], 1);
    assert_eq!(team["most_replied"][0]["replies"], 2);
    let permalink = format!("https://slack.com/archives/C1/p{MONDAY}000000");
    assert_eq!(team["most_replied"][0]["permalink"], permalink);
    assert_eq!(team["report_id"], "team/2026-11-09/2026-11-16");
    let ana = json::of(&report(&archive, &Scope::User(UserId::parse("U1").unwrap()), week).await);
    assert_eq!(ana["report_id"], "user/U1/2026-11-09/2026-11-16");
    let bo = |count| json!([{ "user_id": "U2", "name": "bo", "count": count }]);
    assert_eq!(ana["partners"]["reactions"], json!({ "given": [], "received": bo(2) }));
    assert_eq!(ana["partners"]["replies"], json!({ "given": [], "received": bo(1) }));
    assert_eq!(ana["partners"]["mentions"], json!({ "given": [], "received": bo(1) }));
    assert_eq!((&ana["users"][0]["rank"], &ana["users"][0]["share"]), (&json!(2), &json!(1.0 / 3.0)));
    assert_eq!(ana["users"][0]["mentions_received"], 1);
}

#[tokio::test]
async fn the_basis_changes_with_what_is_shown_and_only_then() {
    let told = vec![plain(0, 14 * DAY, 0, None), plain(0, 14 * DAY + 10, 1, Some(0))];
    let archive = Model::new(told).archive().await;
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
    set(&archive, ItemKey::user(&team(), &UserId::parse("U1").unwrap()), json!({ "tz_offset": 0 })).await;
    assert_ne!(basis().await, last, "another clock");
}

#[tokio::test]
async fn days_of_which_something_may_be_missing_are_named_up_to_now() {
    let told = vec![plain(0, 15 * DAY, 0, None), plain(0, 16 * DAY, 0, None)];
    let archive = Model::new(told).archive().await;
    let week = Period::week("2026-W46").unwrap();
    let days = async || report(&archive, &Scope::Team, week).await.incomplete_days;
    assert_eq!(days().await, ["2026-11-09"], "before the first message that came as it was posted");
    let ts = |second: i64| Ts::parse(&format!("{}.000000", MONDAY + second)).unwrap();
    archive
        .write(&reached(&team(), &channel_id("C1"), &ts(-DAY), &ts(3 * DAY), Source::Import))
        .await
        .unwrap();
    assert_eq!(days().await, [""; 0]);
    let long_ago = report(&archive, &Scope::Team, Period::week("2020-W01").unwrap()).await;
    assert_eq!(
        (long_ago.incomplete_days.len(), long_ago.channels.len()),
        (7, 0),
        "before the archive begins"
    );
    let ahead = json::of(&report(&archive, &Scope::Team, Period::week("2030-W01").unwrap()).await);
    assert_eq!((&ahead["is_over"], &ahead["figures"]["messages"]["value"]), (&json!(false), &json!(0)));
    assert_eq!(ahead["figures"]["median_words"]["value"], Value::Null);
    assert_eq!(ahead["incomplete_days"], json!([]));
}

#[tokio::test]
async fn an_erased_person_and_an_erased_message_leave_nothing() {
    let told = vec![plain(0, 14 * DAY, 0, None), plain(0, 15 * DAY, 1, None)];
    let archive = Model::new(told).archive().await;
    let ts = Ts::parse(&format!("{MONDAY}.000000")).unwrap();
    archive.erase(&ItemKey::message(&team(), &channel_id("C1"), &ts)).await.unwrap();
    archive.erase(&ItemKey::user(&team(), &UserId::parse("U1").unwrap())).await.unwrap();
    let found = json::of(&report(&archive, &Scope::Team, Period::week("2026-W46").unwrap()).await);
    assert_eq!(found["figures"]["messages"]["value"], 1);
    assert_eq!(found["figures"]["all_users"]["value"], 3);
    assert!(!found.to_string().contains("ana") && !found.to_string().contains("U1"), "{found}");
}

#[tokio::test]
async fn the_figures_of_single_messages_are_those_of_channelstats() {
    let mut told = vec![
        plain(0, 14 * DAY, 0, None),
        plain(0, 14 * DAY + 10, 1, Some(0)),
        plain(0, 14 * DAY + 20, 0, Some(0)),
    ];
    told[0].mentioned = [1, 2].into();
    told[0].reacted = [(true, 1), (true, 2), (false, 1)].into();
    let archive = Model::new(told).archive().await;
    let place = ChannelPlace { team: team(), channel: channel_id("C1") };
    let channel = find::joined(&archive, &place, &[team()]).await.unwrap();
    let mut threads = message::ThreadFigures::new(&channel);
    let mut seen = Vec::new();
    for n in 0..3 {
        let ts = Ts::parse(&format!("{}.{n:06}", MONDAY + n * 10)).unwrap();
        let row = channel.message(&ts).await.unwrap().unwrap();
        let mut figures = message::with_own(&row).unwrap();
        threads.add(&mut figures).await.unwrap();
        figures.as_object_mut().unwrap().retain(|name, _| {
            let columns = [
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
            columns.contains(&name.as_str())
        });
        seen.push(figures);
    }
    assert_eq!(
        seen[0],
        json!({
            "cid_ts": format!("C1_{MONDAY}.000000"), "date": "2026-11-09", "word_count": 4, "mentions": "U2:U3",
            "reactions_text": "eyes:U2,tada:U2:U3", "reaction_count": 3, "parent_user_id": "U1",
            "replies": format!("U2:{}.000001,U1:{}.000002", MONDAY + 10, MONDAY + 20), "reply_count": 2,
            "is_threadhead": true, "is_threaded": true,
        })
    );
    assert_eq!(
        seen[2],
        json!({
            "cid_ts": format!("C1_{}.000002", MONDAY + 20), "date": "2026-11-09", "word_count": 2, "mentions": "",
            "reactions_text": "", "reaction_count": 0, "parent_user_id": "U1", "replies": "", "reply_count": 0,
            "is_threadhead": false, "is_threaded": true,
        })
    );
}

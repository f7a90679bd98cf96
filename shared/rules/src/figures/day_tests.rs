//! Compares roll-ups with a slow and obviously correct recount, and the parts of a day with the whole.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::day::{DayFigures, DayThread, PersonDay, TOP};
use super::message::{CountedMessage, date, mentions, reactions, reactions_text, words};
use super::partners::Partners;
use super::stored_day::MAX_STORED_BYTES;
use crate::message::CONTENT_VERSION;
use ports::archive::{Item, ItemKey};
use slack::ids::Ts;

/// 2026-11-20, midnight in UTC.
const DAY_S: i64 = 1_795_132_800;

fn item(ts: &str, attributes: Value) -> Item {
    let Value::Object(mut attributes) = attributes else { panic!("no object") };
    attributes.insert(CONTENT_VERSION.into(), "1.000000/0.000000/x".into());
    Item { key: ItemKey::new("message#T1#C1", ts), attributes }
}

/// A generated message, before it becomes a row.
#[derive(Debug, Clone)]
struct GeneratedMessage {
    second: i64,
    author: usize,
    kind: usize,
    words: usize,
    mentioned: Vec<usize>,
    reacted: BTreeSet<(usize, usize)>,
    root: Option<(i64, usize)>,
}

const AUTHORS: [&str; 5] = ["U1", "U2", "U3", "U4", "UBOT"];
const EMOJI: [&str; 3] = ["tada", "eyes", "+1::skin-tone-2"];

impl GeneratedMessage {
    fn ts(&self, n: usize) -> String {
        format!("{}.{n:06}", DAY_S + self.second)
    }

    fn root_ts(&self) -> Option<String> {
        self.root.map(|(second, _)| format!("{}.000000", DAY_S - 100_000 + second))
    }

    fn text(&self) -> String {
        let mentions = self.mentioned.iter().map(|user| format!("<@{}>", AUTHORS[*user]));
        mentions.chain((0..self.words).map(|n| format!("w{n}"))).collect::<Vec<_>>().join(" \n")
    }

    fn row(&self, n: usize) -> Item {
        let mut row = json!({ "user": AUTHORS[self.author], "text": self.text() });
        match self.kind {
            0 => row["deleted"] = true.into(),
            1 => row["subtype"] = "channel_join".into(),
            2 => row["subtype"] = "file_share".into(),
            3 => row["updated_ts"] = "2026-11-21T00:00:00.000000Z".into(),
            4 => row["files"] = json!([{ "id": "F1" }, { "id": "F2" }]),
            _ => {}
        }
        if let (Some(root_ts), Some((_, author))) = (self.root_ts(), self.root) {
            row["thread_ts"] = root_ts.into();
            row["raw_event"] = json!({ "parent_user_id": AUTHORS[author] }).to_string().into();
        }
        for (emoji, user) in &self.reacted {
            row[format!("reaction#{}#{}", EMOJI[*emoji], AUTHORS[*user])] =
                "000000000001.000000/added".into();
        }
        // A removed reaction.
        row["reaction#gone#U1"] = "000000000001.000000/removed".into();
        item(&self.ts(n), row)
    }

    /// The author of its root according to the replies: the first author if they differ.
    fn root_author(&self, counted: &[(usize, &Self)]) -> Option<usize> {
        let (root, _) = self.root?;
        counted
            .iter()
            .filter_map(|(_, message)| message.root)
            .filter(|(second, _)| *second == root)
            .map(|(_, author)| author)
            .min()
    }

    fn is_counted(&self) -> bool {
        self.kind > 1 && AUTHORS[self.author] != "UBOT"
    }
}

fn generated_message() -> impl Strategy<Value = GeneratedMessage> {
    (
        0..86_400_i64,
        0..AUTHORS.len(),
        0..8_usize,
        0..6_usize,
        prop::collection::vec(0..AUTHORS.len(), 0..3),
        prop::collection::btree_set((0..EMOJI.len(), 0..AUTHORS.len()), 0..5),
        prop::option::of((0..5_i64, 0..AUTHORS.len())),
    )
        .prop_map(|(second, author, kind, words, mentioned, reacted, root)| GeneratedMessage {
            second,
            author,
            kind,
            words,
            mentioned,
            reacted,
            root,
        })
}

fn day<'a>(messages: impl IntoIterator<Item = (usize, &'a GeneratedMessage)>) -> DayFigures {
    let mut day = DayFigures::default();
    for (n, message) in messages {
        let row = message.row(n);
        if let Some(counted) = CountedMessage::read(&row) {
            day.add(&counted, counted.author == Some("UBOT"));
        }
    }
    day
}

/// The day with the replies to each person's roots, whose authors are known from the replies only.
fn credited(mut day: DayFigures) -> DayFigures {
    day.credit(|_| None);
    day
}

/// Computes each count in a separate pass over all messages.
fn recounted(messages: &[GeneratedMessage]) -> DayFigures {
    let numbered: Vec<(usize, &GeneratedMessage)> = messages.iter().enumerate().collect();
    let counted: Vec<(usize, &GeneratedMessage)> =
        numbered.iter().copied().filter(|(_, message)| message.is_counted()).collect();
    let parse = |ts: &str| Ts::parse(ts).unwrap();
    let mut people = BTreeMap::new();
    for (index, id) in AUTHORS.into_iter().enumerate() {
        let own = || counted.iter().filter(|(_, message)| message.author == index);
        let all_words = |message: &GeneratedMessage| (message.words + message.mentioned.len()) as u64;
        let mut quarters = Vec::new();
        for quarter in 0..96_u8 {
            let within = || own().filter(|(_, message)| message.second / 900 == i64::from(quarter));
            if within().count() > 0 {
                let words = within().map(|(_, message)| all_words(message)).sum();
                quarters.push((quarter, within().count() as u64, words));
            }
        }
        let first = numbered
            .iter()
            .filter(|(_, message)| message.author == index && message.kind != 1 && id != "UBOT");
        let person = PersonDay {
            messages: own().count() as u64,
            words: own().map(|(_, message)| all_words(message)).sum(),
            replies: own().filter(|(_, message)| message.root.is_some()).count() as u64,
            reactions_received: own().map(|(_, message)| message.reacted.len() as u64).sum(),
            reactions_given: counted
                .iter()
                .flat_map(|(_, message)| &message.reacted)
                .filter(|(_, user)| *user == index)
                .count() as u64,
            mentions_received: counted
                .iter()
                .filter(|(_, message)| message.author != index && message.mentioned.contains(&index))
                .count() as u64,
            replies_received: counted
                .iter()
                .filter(|(_, message)| {
                    message.author != index && message.root_author(&counted) == Some(index)
                })
                .count() as u64,
            first: first.map(|(n, message)| parse(&message.ts(*n))).min(),
            quarters,
        };
        if person != PersonDay::default() {
            people.insert(id.to_owned(), person);
        }
    }
    let mut emoji = BTreeMap::new();
    for (index, name) in EMOJI.into_iter().enumerate() {
        let uses = counted
            .iter()
            .flat_map(|(_, message)| &message.reacted)
            .filter(|(emoji, _)| *emoji == index)
            .count();
        if uses > 0 {
            emoji.insert(name.to_owned(), uses as u64);
        }
    }
    let mut threads = BTreeMap::new();
    for (_, message) in &counted {
        if let (Some(root_ts), Some((_, author))) = (message.root_ts(), message.root) {
            let thread: &mut DayThread = threads.entry(parse(&root_ts)).or_default();
            *thread.repliers.entry(AUTHORS[message.author].to_owned()).or_default() += 1;
            let author = AUTHORS[author].to_owned();
            if thread.told_author.as_ref().is_none_or(|known| *known > author) {
                thread.told_author = Some(author);
            }
        }
    }
    let mut most_reacted: Vec<(Ts, u64)> = counted
        .iter()
        .filter(|(_, message)| !message.reacted.is_empty())
        .map(|(n, message)| (parse(&message.ts(*n)), message.reacted.len() as u64))
        .collect();
    most_reacted.sort_by_key(|(ts, count)| (std::cmp::Reverse(*count), ts.clone()));
    most_reacted.truncate(TOP);
    DayFigures {
        bot_messages: numbered
            .iter()
            .filter(|(_, message)| message.kind > 1 && AUTHORS[message.author] == "UBOT")
            .count() as u64,
        files: counted.iter().filter(|(_, message)| message.kind == 4).count() as u64 * 2,
        edited: counted.iter().filter(|(_, message)| message.kind == 3).count() as u64,
        people,
        emoji,
        threads,
        most_reacted,
        ..DayFigures::default()
    }
}

proptest! {
    #[test]
    fn a_day_equals_its_merged_parts_in_any_order_and_a_recount(
        messages in prop::collection::vec(generated_message(), 0..60), parts in 1..5_usize,
    ) {
        let whole = day(messages.iter().enumerate());
        let mut merged = DayFigures::default();
        for part in (0..parts).rev() {
            let messages_of_part = messages.iter().enumerate().filter(|(n, _)| n % parts == part);
            merged.merge(&day(messages_of_part));
        }
        prop_assert_eq!(&merged, &whole);
        let backwards: Vec<(usize, &GeneratedMessage)> = messages.iter().enumerate().rev().collect();
        prop_assert_eq!(&day(backwards), &whole);
        prop_assert_eq!(DayFigures::read(&whole.stored().unwrap()), Some(whole.clone()));
        prop_assert_eq!(credited(DayFigures { basis: 0, ..whole.clone() }).people, recounted(&messages).people);
        prop_assert!(whole.agrees(|id, _| id == "UBOT"));
        let has_bot = messages.iter().any(|message| message.kind != 1 && AUTHORS[message.author] == "UBOT");
        prop_assert_eq!(whole.agrees(|_, _| false), !has_bot);
        let recounted = recounted(&messages);
        prop_assert_eq!(
            (whole.bot_messages, whole.files, whole.edited, whole.emoji, whole.threads, whole.most_reacted),
            (recounted.bot_messages, recounted.files, recounted.edited, recounted.emoji, recounted.threads,
                recounted.most_reacted)
        );
    }

    #[test]
    fn partners_are_the_totals_without_interactions_of_people_with_themselves(
        messages in prop::collection::vec(generated_message(), 0..40), index in 0..4_usize,
    ) {
        let person = AUTHORS[index];
        let mut partners = Partners::default();
        let counted: Vec<(usize, &GeneratedMessage)> = messages.iter().enumerate().filter(|(_, message)| message.is_counted()).collect();
        for (n, message) in &counted {
            let row = message.row(*n);
            partners.add(person, &CountedMessage::read(&row).unwrap());
        }
        let whole = credited(day(messages.iter().enumerate()));
        for thread in whole.threads.values() {
            partners.add_replies(person, thread, thread.told_author.as_deref().unwrap());
        }
        let figures = whole.people.get(person).cloned().unwrap_or_default();
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let own = messages.iter().filter(|message| message.is_counted() && message.author == index);
        let to_self = own.flat_map(|message| &message.reacted).filter(|(_, user)| *user == index).count() as u64;
        prop_assert_eq!(sum(&partners.mentions.received), figures.mentions_received);
        prop_assert_eq!(sum(&partners.replies.received), figures.replies_received);
        prop_assert_eq!(sum(&partners.reactions.received) + to_self, figures.reactions_received);
        prop_assert_eq!(sum(&partners.reactions.given) + to_self, figures.reactions_given);
        prop_assert!(!partners.mentions.given.contains_key(person));
    }

    #[test]
    fn a_change_of_anything_that_is_counted_changes_the_basis(messages in prop::collection::vec(generated_message(), 1..20), n in 0..20_usize) {
        let n = n % messages.len();
        prop_assume!(messages[n].is_counted());
        let before = day(messages.iter().enumerate()).basis;
        for change in [
            (|message: &mut GeneratedMessage| message.kind = 0) as fn(&mut GeneratedMessage),
            |message| {
                if message.reacted.pop_first().is_none() {
                    message.reacted.insert((0, 0));
                }
            },
            |message| message.root = message.root.map_or(Some((0, 0)), |_| None),
        ] {
            let mut changed = messages.clone();
            change(&mut changed[n]);
            prop_assert_ne!(day(changed.iter().enumerate()).basis, before);
        }
    }
}

#[test]
fn any_white_space_separates_words_and_only_users_are_mentions() {
    assert_eq!(words(" one\u{a0}two\n\nthree\u{3000}four\u{200b}five "), 4);
    assert_eq!(words(&"word ".repeat(8_000)), 8_000);
    let text = "<@U2> <@U1|ana>, <@W3>: <@u4> <@> <@U2> <@U5 <!here> <#C1> <@U6> by <@U1>";
    assert_eq!(mentions(text, Some("U1")), ["U2", "W3", "U6"]);
    assert_eq!(mentions("<@U1> and <@U2", None), ["U1"]);
    let everyone: String = (10..5_000).map(|n| format!("<@U{n}>")).collect();
    assert_eq!(mentions(&everyone, None).len(), 4_990);
}

#[test]
fn each_of_ten_thousand_reactions_is_counted() {
    let mut row = json!({ "user": "U1", "text": "hello" });
    for n in 0..10_000 {
        row[format!("reaction#emoji{}#U{n:05}", n % 7)] = "000000000001.000000/added".into();
    }
    let row = item("1795132800.000100", row);
    let mut day = DayFigures::default();
    day.add(&CountedMessage::read(&row).unwrap(), false);
    assert_eq!(day.total().reactions_received, 10_000);
    assert_eq!((day.emoji.len(), day.people.len()), (7, 10_001));
    assert_eq!(day.most_reacted, [(Ts::parse("1795132800.000100").unwrap(), 10_000)]);
    let text = reactions_text(&reactions(&row));
    assert!(text.starts_with("emoji0:U00000:U00007:") && text.matches(',').count() == 6, "{text:.60}");
}

#[test]
fn a_day_that_is_too_large_for_a_row_is_an_error() {
    let mut day = DayFigures::default();
    for n in 0..40_000 {
        day.emoji.insert(format!("emoji{n}"), 1);
    }
    assert!(day.stored().unwrap_err().0 > MAX_STORED_BYTES);
    for odd in ["", "null", "{}", r#"{"messages":1,"users":{},"emoji":{},"threads":{},"top_reacted":[]}"#] {
        assert_eq!(DayFigures::read(odd), None, "{odd}");
    }
}

#[test]
fn a_day_keeps_the_authors_of_its_own_roots_and_a_day_stored_without_them_is_read() {
    let reply = json!({ "user": "U2", "thread_ts": "1795132800.000100",
        "raw_event": json!({ "parent_user_id": "U3" }).to_string() });
    let mut day = DayFigures::default();
    day.add(&CountedMessage::read(&item("1795132801.000000", reply)).unwrap(), false);
    let without = day.stored().unwrap();
    assert!(!without.contains("author\""), "{without}");
    assert_eq!(DayFigures::read(&without), Some(day.clone()));
    day.name_authors(|root_ts| (root_ts.as_str() == "1795132800.000100").then_some("U1"));
    let read = DayFigures::read(&day.stored().unwrap()).unwrap();
    assert_eq!(read, day);
    assert_eq!(read.threads.values().next().unwrap().author.as_deref(), Some("U1"));
    assert_ne!(read, DayFigures::read(&without).unwrap(), "another author makes another roll-up");
}

#[test]
fn only_messages_that_people_and_apps_wrote_are_counted() {
    let read = |attributes: Value| {
        let row = item("1795132800.000100", attributes);
        CountedMessage::read(&row).map(|message| (message.author.map(str::to_owned), message.is_by_app))
    };
    let by = |author: &str, is_by_app| Some((Some(author.to_owned()), is_by_app));
    assert_eq!(read(json!({ "user": "U1" })), by("U1", false));
    assert_eq!(read(json!({ "user": "U1", "subtype": "file_share" })), by("U1", false));
    assert_eq!(read(json!({ "user": "U1", "subtype": "thread_broadcast", "bot_id": "B1" })), by("U1", true));
    assert_eq!(read(json!({ "user": "U1", "subtype": "bot_message" })), Some((None, true)));
    assert_eq!(read(json!({ "bot_id": "B1" })), Some((None, true)));
    assert_eq!(read(json!({ "user": "not an id" })), Some((None, true)));
    for subtype in ["channel_join", "channel_topic", "pinned_item", "tombstone", "huddle_thread"] {
        assert_eq!(read(json!({ "user": "U1", "subtype": subtype })), None, "{subtype}");
    }
    assert_eq!(read(json!({ "user": "U1", "erased": true })), None);
    let reactions_only =
        Item { key: ItemKey::new("message#T1#C1", "1.000000"), attributes: Default::default() };
    assert_eq!(CountedMessage::read(&reactions_only), None);
}

#[test]
fn days_and_quarters_of_an_hour_are_in_utc() {
    let at = |ts: &str| {
        let row = item(ts, json!({ "user": "U1" }));
        let message = CountedMessage::read(&row).unwrap();
        (message.day(), message.quarter(), date(&message.ts))
    };
    assert_eq!(at("1795132800.000000"), (20_777, 0, "2026-11-20".to_owned()));
    assert_eq!(at("1795219199.999999"), (20_777, 95, "2026-11-20".to_owned()));
    assert_eq!(at("1795219200.000000"), (20_778, 0, "2026-11-21".to_owned()));
    assert_eq!(at("0.000000").2, "1970-01-01");
    assert_eq!(at("999999999999.000000").2, "", "beyond the calendar");
}

//! Roll-ups compared with a recount that is slow and obviously right, and parts of a day with the whole.

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

/// A message as the generator makes it, before it is a row.
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
        let mentions = self.mentioned.iter().map(|of| format!("<@{}>", AUTHORS[*of]));
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
        for (emoji, of) in &self.reacted {
            row[format!("reaction#{}#{}", EMOJI[*emoji], AUTHORS[*of])] = "000000000001.000000/added".into();
        }
        // One that was taken back.
        row["reaction#gone#U1"] = "000000000001.000000/removed".into();
        item(&self.ts(n), row)
    }

    /// The author of its root: whom the replies tell, and the first of them if they differ.
    fn root_author(&self, counted: &[(usize, &Self)]) -> Option<usize> {
        let (root, _) = self.root?;
        counted.iter().filter_map(|(_, told)| told.root).filter(|(of, _)| *of == root).map(|(_, of)| of).min()
    }

    fn is_counted(&self) -> bool {
        self.kind > 1 && AUTHORS[self.author] != "UBOT"
    }
}

fn told() -> impl Strategy<Value = GeneratedMessage> {
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

fn day<'a>(told: impl IntoIterator<Item = (usize, &'a GeneratedMessage)>) -> DayFigures {
    let mut day = DayFigures::default();
    for (n, told) in told {
        let row = told.row(n);
        if let Some(message) = CountedMessage::read(&row) {
            day.add(&message, message.author == Some("UBOT"));
        }
    }
    day
}

/// With the replies to the roots of each person, whose authors only the replies tell.
fn credited(mut day: DayFigures) -> DayFigures {
    day.credit(|_| None);
    day
}

/// Every count by going through everything once for it.
fn recounted(told: &[GeneratedMessage]) -> DayFigures {
    let numbered: Vec<(usize, &GeneratedMessage)> = told.iter().enumerate().collect();
    let counted: Vec<(usize, &GeneratedMessage)> =
        numbered.iter().copied().filter(|(_, told)| told.is_counted()).collect();
    let parse = |ts: &str| Ts::parse(ts).unwrap();
    let mut people = BTreeMap::new();
    for (place, id) in AUTHORS.into_iter().enumerate() {
        let own = || counted.iter().filter(|(_, told)| told.author == place);
        let all_words = |told: &GeneratedMessage| (told.words + told.mentioned.len()) as u64;
        let mut quarters = Vec::new();
        for quarter in 0..96_u8 {
            let within = || own().filter(|(_, told)| told.second / 900 == i64::from(quarter));
            if within().count() > 0 {
                let words = within().map(|(_, told)| all_words(told)).sum();
                quarters.push((quarter, within().count() as u64, words));
            }
        }
        let first =
            numbered.iter().filter(|(_, told)| told.author == place && told.kind != 1 && id != "UBOT");
        let person = PersonDay {
            messages: own().count() as u64,
            words: own().map(|(_, told)| all_words(told)).sum(),
            replies: own().filter(|(_, told)| told.root.is_some()).count() as u64,
            reactions_received: own().map(|(_, told)| told.reacted.len() as u64).sum(),
            reactions_given: counted
                .iter()
                .flat_map(|(_, told)| &told.reacted)
                .filter(|(_, of)| *of == place)
                .count() as u64,
            mentions_received: counted
                .iter()
                .filter(|(_, told)| told.author != place && told.mentioned.contains(&place))
                .count() as u64,
            replies_received: counted
                .iter()
                .filter(|(_, told)| told.author != place && told.root_author(&counted) == Some(place))
                .count() as u64,
            first: first.map(|(n, told)| parse(&told.ts(*n))).min(),
            quarters,
        };
        if person != PersonDay::default() {
            people.insert(id.to_owned(), person);
        }
    }
    let mut emoji = BTreeMap::new();
    for (place, name) in EMOJI.into_iter().enumerate() {
        let of =
            counted.iter().flat_map(|(_, told)| &told.reacted).filter(|(emoji, _)| *emoji == place).count();
        if of > 0 {
            emoji.insert(name.to_owned(), of as u64);
        }
    }
    let mut threads = BTreeMap::new();
    for (_, told) in &counted {
        if let (Some(root_ts), Some((_, author))) = (told.root_ts(), told.root) {
            let thread: &mut DayThread = threads.entry(parse(&root_ts)).or_default();
            *thread.repliers.entry(AUTHORS[told.author].to_owned()).or_default() += 1;
            let author = AUTHORS[author].to_owned();
            if thread.told_author.as_ref().is_none_or(|told| *told > author) {
                thread.told_author = Some(author);
            }
        }
    }
    let mut most_reacted: Vec<(Ts, u64)> = counted
        .iter()
        .filter(|(_, told)| !told.reacted.is_empty())
        .map(|(n, told)| (parse(&told.ts(*n)), told.reacted.len() as u64))
        .collect();
    most_reacted.sort_by_key(|(ts, count)| (std::cmp::Reverse(*count), ts.clone()));
    most_reacted.truncate(TOP);
    DayFigures {
        bot_messages: numbered
            .iter()
            .filter(|(_, told)| told.kind > 1 && AUTHORS[told.author] == "UBOT")
            .count() as u64,
        files: counted.iter().filter(|(_, told)| told.kind == 4).count() as u64 * 2,
        edited: counted.iter().filter(|(_, told)| told.kind == 3).count() as u64,
        people,
        emoji,
        threads,
        most_reacted,
        ..DayFigures::default()
    }
}

proptest! {
    #[test]
    fn a_day_is_its_parts_in_any_order_and_what_a_recount_finds(
        told in prop::collection::vec(told(), 0..60), parts in 1..5_usize,
    ) {
        let whole = day(told.iter().enumerate());
        let mut merged = DayFigures::default();
        for part in (0..parts).rev() {
            let of_part = told.iter().enumerate().filter(|(n, _)| n % parts == part);
            merged.merge(&day(of_part));
        }
        prop_assert_eq!(&merged, &whole);
        let backwards: Vec<(usize, &GeneratedMessage)> = told.iter().enumerate().rev().collect();
        prop_assert_eq!(&day(backwards), &whole);
        prop_assert_eq!(DayFigures::read(&whole.stored().unwrap()), Some(whole.clone()));
        prop_assert_eq!(credited(DayFigures { basis: 0, ..whole.clone() }).people, recounted(&told).people);
        prop_assert!(whole.agrees(|id, _| id == "UBOT"));
        let has_bot = told.iter().any(|told| told.kind != 1 && AUTHORS[told.author] == "UBOT");
        prop_assert_eq!(whole.agrees(|_, _| false), !has_bot);
        let recounted = recounted(&told);
        prop_assert_eq!(
            (whole.bot_messages, whole.files, whole.edited, whole.emoji, whole.threads, whole.most_reacted),
            (recounted.bot_messages, recounted.files, recounted.edited, recounted.emoji, recounted.threads,
                recounted.most_reacted)
        );
    }

    #[test]
    fn partners_are_the_totals_without_what_people_do_to_themselves(
        told in prop::collection::vec(told(), 0..40), place in 0..4_usize,
    ) {
        let person = AUTHORS[place];
        let mut partners = Partners::default();
        let counted: Vec<(usize, &GeneratedMessage)> = told.iter().enumerate().filter(|(_, told)| told.is_counted()).collect();
        for (n, told) in &counted {
            let row = told.row(*n);
            partners.add(person, &CountedMessage::read(&row).unwrap());
        }
        let whole = credited(day(told.iter().enumerate()));
        for thread in whole.threads.values() {
            partners.add_replies(person, thread, thread.told_author.as_deref().unwrap());
        }
        let of = whole.people.get(person).cloned().unwrap_or_default();
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let own = told.iter().filter(|told| told.is_counted() && told.author == place);
        let to_self = own.flat_map(|told| &told.reacted).filter(|(_, of)| *of == place).count() as u64;
        prop_assert_eq!(sum(&partners.mentions.received), of.mentions_received);
        prop_assert_eq!(sum(&partners.replies.received), of.replies_received);
        prop_assert_eq!(sum(&partners.reactions.received) + to_self, of.reactions_received);
        prop_assert_eq!(sum(&partners.reactions.given) + to_self, of.reactions_given);
        prop_assert!(!partners.mentions.given.contains_key(person));
    }

    #[test]
    fn anything_that_is_counted_changes_the_basis(told in prop::collection::vec(told(), 1..20), n in 0..20_usize) {
        let n = n % told.len();
        prop_assume!(told[n].is_counted());
        let before = day(told.iter().enumerate()).basis;
        for change in [
            (|told: &mut GeneratedMessage| told.kind = 0) as fn(&mut GeneratedMessage),
            |told| {
                if told.reacted.pop_first().is_none() {
                    told.reacted.insert((0, 0));
                }
            },
            |told| told.root = told.root.map_or(Some((0, 0)), |_| None),
        ] {
            let mut changed = told.clone();
            change(&mut changed[n]);
            prop_assert_ne!(day(changed.iter().enumerate()).basis, before);
        }
    }
}

#[test]
fn words_are_parted_by_any_white_space_and_mentions_are_people() {
    assert_eq!(words(" one\u{a0}two\n\nthree\u{3000}four\u{200b}five "), 4);
    assert_eq!(words(&"word ".repeat(8_000)), 8_000);
    let text = "<@U2> <@U1|ana>, <@W3>: <@u4> <@> <@U2> <@U5 <!here> <#C1> <@U6> by <@U1>";
    assert_eq!(mentions(text, Some("U1")), ["U2", "W3", "U6"]);
    assert_eq!(mentions("<@U1> and <@U2", None), ["U1"]);
    let everyone: String = (10..5_000).map(|n| format!("<@U{n}>")).collect();
    assert_eq!(mentions(&everyone, None).len(), 4_990);
}

#[test]
fn a_message_with_ten_thousand_reactions_counts_each() {
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
fn a_day_that_no_row_can_hold_says_so() {
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
fn a_day_keeps_who_wrote_the_roots_of_its_own_and_one_that_was_stored_without_them_is_read() {
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
fn what_counts_is_what_people_and_apps_wrote() {
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
fn a_quarter_of_an_hour_and_a_day_are_those_of_utc() {
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

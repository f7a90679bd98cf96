//! Random queries find exactly what a filter over all messages finds.

use serde_json::{Value, json};

use crate::fixture::{SearchFixture, request};

const CHANNELS: [(&str, &str); 3] = [("C1", "general"), ("C2", "ops"), ("C3", "random")];
const PEOPLE: [(&str, &str); 6] =
    [("U1", "ana"), ("U2", "bo"), ("U3", "cy"), ("U4", "dan"), ("U5", "田中"), ("U6", "kim")];
/// Words that contain a mention: the text that people read, and the text as typed.
const POLITE: [(&str, &str); 2] = [("田中さん", "<@U5>さん"), ("kimさん", "<@U6>さん")];
const PARTS: [&str; 7] = ["田中さん", "kimさん", "中さん", "田中", "さん", "中", "ん"];
const WORDS: [&str; 12] =
    ["alpha", "alphabet", "beta", "deploy", "deployed", "error", "the", "the", "the", "x9", "zeta", "naïve"];
/// 2026-10-25 00:00 UTC.
const FIRST_DAY: i64 = 1_792_886_400;
const DAYS: i64 = 40;
/// Minimum number of seconds between two messages.
const STEP: usize = 30;

/// A message for the filter.
struct OracleMessage {
    channel: usize,
    ts: String,
    day: i64,
    author: usize,
    /// The words as people read them.
    words: Vec<&'static str>,
    is_reply: bool,
    has_replies: bool,
    is_edited: bool,
    is_deleted: bool,
    is_bot: bool,
    has_file: bool,
    has_link: bool,
    has_reaction: bool,
    has_code: bool,
}

impl OracleMessage {
    fn text(&self) -> String {
        let mut text: Vec<String> = self
            .words
            .iter()
            .map(|word| match PEOPLE.iter().find(|(_, name)| name == word) {
                Some((id, _)) => format!("<@{id}>"),
                None => {
                    POLITE.iter().find(|(read, _)| read == word).map_or(*word, |(_, typed)| *typed).to_owned()
                }
            })
            .collect();
        if self.has_link {
            text.push("<https://example.com>".to_owned());
        }
        if self.has_code {
            text.push("`y`".to_owned());
        }
        text.join(", ")
    }

    fn raw(&self, roots: &[OracleMessage]) -> Value {
        let mut raw = json!({ "type": "message", "ts": self.ts, "text": self.text() });
        if self.is_bot {
            raw["subtype"] = "bot_message".into();
            raw["bot_id"] = "B1".into();
        } else {
            raw["user"] = PEOPLE[self.author].0.into();
        }
        if self.is_edited {
            raw["edited"] = json!({ "user": "U1", "ts": format!("{}.000000", FIRST_DAY + DAYS * 86_400) });
        }
        if self.has_file {
            raw["files"] = json!([{ "id": "F1", "name": "q1" }]);
        }
        if self.has_reaction {
            raw["reactions"] = json!([{ "name": "tada", "users": ["U1"], "count": 1 }]);
        }
        if self.is_reply {
            raw["thread_ts"] = roots[root_of(self, roots)].ts.clone().into();
        }
        raw
    }
}

/// Returns the index of a reply's root.
fn root_of(reply: &OracleMessage, before: &[OracleMessage]) -> usize {
    before.iter().rposition(|root| root.has_replies && root.channel == reply.channel).unwrap()
}

/// A condition that the test generates and evaluates itself.
#[derive(Clone, Debug)]
enum OracleCondition {
    Word(&'static str),
    Prefix(&'static str),
    Phrase(&'static str, &'static str),
    Part(&'static str),
    From(usize),
    In(usize),
    Before(i64),
    After(i64),
    On(i64),
    During(&'static str),
    /// An index into [`FLAGS`].
    Flag(usize),
}

type OracleFilter = fn(&OracleMessage) -> bool;

/// Filters without a name or a date. `random` draws the last one separately, and each of the others as often.
const FLAGS: [(&str, OracleFilter); 9] = [
    ("has:file", |message| message.has_file),
    ("has:link", |message| message.has_link),
    ("has:reaction", |message| message.has_reaction),
    ("has:code", |message| message.has_code),
    ("has:thread", |message| message.has_replies),
    ("is:thread", |message| message.is_reply || message.has_replies),
    ("is:edited", |message| message.is_edited),
    ("is:deleted", |message| message.is_deleted),
    ("is:bot", |message| message.is_bot),
];

fn day(number: i64) -> String {
    let time = jiff::Timestamp::from_second(FIRST_DAY + number * 86_400).unwrap();
    time.strftime("%Y-%m-%d").to_string()
}

/// Whether the first part of a word is the requested one.
fn begins(word: &str, requested: &str) -> bool {
    word == requested || word.strip_suffix("さん") == Some(requested)
}

impl OracleCondition {
    fn random(random: &mut fastrand::Rng) -> Self {
        let word = |random: &mut fastrand::Rng| WORDS[random.usize(..WORDS.len())];
        let name = |random: &mut fastrand::Rng| PEOPLE[random.usize(..PEOPLE.len())].1;
        match random.u8(..26) {
            0..4 => Self::Word(word(random)),
            4 => Self::Word(name(random)),
            5 => Self::Prefix(["al", "dep", "th", "er", "an", "ki"][random.usize(..6)]),
            6 => Self::Phrase(word(random), word(random)),
            7 => Self::Phrase(word(random), name(random)),
            8 => Self::From(random.usize(..PEOPLE.len())),
            9 => Self::In(random.usize(..3)),
            10 => Self::Before(random.i64(0..DAYS)),
            11 => Self::After(random.i64(0..DAYS)),
            12 => Self::On(random.i64(0..DAYS)),
            flag @ 13..21 => Self::Flag(usize::from(flag) - 13),
            21 => Self::During(["2026-10", "2026-11", "2026", "2025"][random.usize(..4)]),
            22 => Self::Phrase(name(random), word(random)),
            23 | 24 => Self::Part(PARTS[random.usize(..PARTS.len())]),
            _ => Self::Flag(FLAGS.len() - 1),
        }
    }

    fn typed(&self) -> String {
        match self {
            Self::Word(word) | Self::Part(word) => (*word).to_owned(),
            Self::Prefix(begin) => format!("{begin}*"),
            Self::Phrase(one, other) => format!("\"{one} {other}\""),
            Self::From(person) => format!("from:@{}", PEOPLE[*person].1),
            Self::In(channel) => format!("in:#{}", CHANNELS[*channel].1),
            Self::Before(number) => format!("before:{}", day(*number)),
            Self::After(number) => format!("after:{}", day(*number)),
            Self::On(number) => format!("on:{}", day(*number)),
            Self::During(time) => format!("during:{time}"),
            Self::Flag(index) => FLAGS[*index].0.to_owned(),
        }
    }

    fn holds(&self, message: &OracleMessage) -> bool {
        match self {
            Self::Word(requested) => message.words.iter().any(|word| begins(word, requested)),
            Self::Prefix(begin) => message.words.iter().any(|word| word.starts_with(begin)),
            Self::Phrase(one, other) => {
                message.words.windows(2).any(|pair| pair[0] == *one && begins(pair[1], other))
            }
            Self::Part(part) => message.words.iter().any(|word| word.contains(part)),
            Self::From(person) => !message.is_bot && message.author == *person,
            Self::In(channel) => message.channel == *channel,
            Self::Before(day) => message.day < *day,
            Self::After(day) => message.day > *day,
            Self::On(day) => message.day == *day,
            Self::During(time) => day(message.day).starts_with(time),
            Self::Flag(index) => FLAGS[*index].1(message),
        }
    }
}

fn messages(random: &mut fastrand::Rng, count: usize) -> Vec<OracleMessage> {
    let mut seconds: Vec<i64> = (0..DAYS * 86_400).step_by(STEP).collect();
    random.shuffle(&mut seconds);
    seconds.truncate(count);
    seconds.sort_unstable();
    let mut known: Vec<OracleMessage> = Vec::with_capacity(count);
    for second in seconds {
        let mut chance = |one_in: u32| random.u32(..one_in) == 0;
        let channel_has_root = |known: &[OracleMessage], channel| {
            known.iter().any(|root| root.has_replies && root.channel == channel)
        };
        let (has_replies, wants_root) = (chance(12), chance(4));
        let (is_edited, is_deleted, is_bot) = (chance(9), chance(15), chance(10));
        let (has_file, has_link, has_reaction, has_code) = (chance(8), chance(8), chance(8), chance(8));
        let channel = random.usize(..3);
        let words = (0..random.usize(1..7))
            .map(|_| match random.u8(..8) {
                0 => PEOPLE[random.usize(..PEOPLE.len())].1,
                1 => POLITE[random.usize(..POLITE.len())].0,
                _ => WORDS[random.usize(..WORDS.len())],
            })
            .collect();
        known.push(OracleMessage {
            channel,
            ts: format!("{}.{:06}", FIRST_DAY + second, random.u32(..1_000_000)),
            day: second / 86_400,
            author: random.usize(..PEOPLE.len()),
            words,
            is_reply: wants_root && !has_replies && channel_has_root(&known, channel),
            has_replies,
            is_edited: is_edited && !is_deleted,
            is_deleted,
            is_bot,
            has_file,
            has_link,
            has_reaction,
            has_code,
        });
    }
    known
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_find_exactly_what_a_filter_over_all_messages_finds() {
    compare(SearchFixture::open().await, 800, 400, usize::MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_find_the_same_if_the_archive_reports_days_instead_of_rows() {
    compare(SearchFixture::by_day().await, 800, 400, usize::MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: cargo test --release -p search --test it -- --ignored oracle"]
async fn random_queries_find_the_same_among_a_hundred_thousand_messages() {
    compare(SearchFixture::open().await, 100_000, 1_000, 1_000).await;
}

/// Compares the hits of random queries over random messages with the filter, up to a number of hits each.
async fn compare(fixture: SearchFixture, messages: usize, queries: usize, limit: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    fixture.channels(&CHANNELS).await;
    for (id, name) in PEOPLE {
        fixture.person(id, name).await;
    }
    let known = self::messages(&mut random, messages);
    for (number, (channel, _)) in CHANNELS.iter().enumerate() {
        let channel_messages = || known.iter().enumerate().filter(|(_, message)| message.channel == number);
        let raws: Vec<Value> = channel_messages().map(|(at, message)| message.raw(&known[..at])).collect();
        for raws in raws.chunks(1_000) {
            fixture.store(channel, raws).await;
        }
        // A tombstone marks a deletion; the message keeps its content.
        let tombstones: Vec<Value> = channel_messages()
            .filter(|(_, message)| message.is_deleted)
            .map(|(_, message)| json!({ "type": "message", "subtype": "tombstone", "ts": message.ts, "user": "USLACKBOT" }))
            .collect();
        fixture.store(channel, &tombstones).await;
        // Messages of the next channel then arrive as changes.
        drop(fixture.caught_up().await);
    }
    let index = fixture.caught_up().await;
    // A root only has replies if one of them was not deleted.
    let mut roots = vec![false; known.len()];
    for (at, reply) in known.iter().enumerate().filter(|(_, reply)| reply.is_reply && !reply.is_deleted) {
        roots[root_of(reply, &known[..at])] = true;
    }
    let known: Vec<OracleMessage> = known
        .into_iter()
        .zip(roots)
        .map(|(message, has_replies)| OracleMessage { has_replies, ..message })
        .collect();
    let (mut hits, mut non_empty) = (0, 0);
    for _ in 0..queries {
        let terms: Vec<(bool, OracleCondition)> = (0..random.usize(1..5))
            .map(|_| (random.u8(..5) == 0, OracleCondition::random(&mut random)))
            .collect();
        let typed: Vec<String> = terms
            .iter()
            .map(|(not, term)| format!("{}{}", if *not { "-" } else { "" }, term.typed()))
            .collect();
        let typed = typed.join(" ");
        let with_deleted =
            random.bool() || terms.iter().any(|(not, term)| !not && term.typed() == "is:deleted");
        let mut expected: Vec<&str> = known
            .iter()
            .filter(|message| with_deleted || !message.is_deleted)
            .filter(|message| terms.iter().all(|(not, term)| term.holds(message) != *not))
            .map(|message| message.ts.as_str())
            .collect();
        expected.reverse();
        expected.truncate(limit);
        let mut request = request(&typed);
        request.limit = limit;
        request.with_deleted = with_deleted;
        let answer = fixture.answer(&index, request).await;
        let found: Vec<&str> = answer.hits.iter().map(|hit| hit.ts.as_str()).collect();
        assert_eq!(found, expected, "{typed} (with deleted: {with_deleted})");
        hits += found.len();
        non_empty += usize::from(!found.is_empty());
    }
    assert!(non_empty > queries / 4 && hits > queries, "{non_empty} queries of {queries} found something");
}

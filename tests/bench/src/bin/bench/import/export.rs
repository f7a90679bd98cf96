//! Makes an export with as many messages as wanted.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Its channels.
pub(crate) const CHANNELS: usize = 100;
/// Messages of a channel's day.
pub(crate) const DAY: usize = 50;

/// How messages are spread.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    /// Over how many channels.
    pub(crate) channels: usize,
    /// How many of them a channel has in a day.
    pub(crate) day: usize,
}

/// As most parts of the bench have them.
pub(crate) const USUAL: Spread = Spread { channels: CHANNELS, day: DAY };

/// Its people.
pub(crate) const PEOPLE: usize = 2_000;

pub(crate) const TEAM: &str = "T0BENCH";
const FIRST_S: usize = 1_500_000_000;
const DAY_S: usize = 86_400;

/// Different words of messages. The nth is about n times as rare as the first, as in what people write.
pub(crate) const WORDS: usize = 50_000;

/// One message in this number has Japanese words.
const JAPANESE: usize = 50;

/// Words of Japanese messages.
pub(crate) const JAPANESE_WORDS: [&str; 8] = ["会議", "障害", "対応", "完了", "確認", "資料", "来週", "設計"];

/// Writes an export of this number of messages.
pub(crate) fn write(path: &Path, messages: usize) -> anyhow::Result<()> {
    write_spread(path, messages, USUAL)
}

/// Writes one whose messages are spread in another way.
pub(crate) fn write_spread(path: &Path, messages: usize, spread: Spread) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut zip = ZipWriter::new(BufWriter::new(File::create(path)?));
    let mut entry = |name: &str, list: &Value| -> anyhow::Result<()> {
        zip.start_file(name, SimpleFileOptions::default())?;
        Ok(zip.write_all(&serde_json::to_vec(list)?)?)
    };
    entry("users.json", &(0..PEOPLE).map(person).collect())?;
    entry("channels.json", &(0..spread.channels).map(channel).collect())?;
    for channel in 0..spread.channels {
        let of_channel = spread.of_channel(messages, channel);
        for first in (0..of_channel).step_by(spread.day) {
            let day = first / spread.day;
            let list = (first..of_channel.min(first + spread.day))
                .map(|number| message(FIRST_S + day * DAY_S + (number - first) * 60, number, &mut random))
                .collect();
            entry(&format!("channel-{channel}/{}.json", date(day)), &list)?;
        }
    }
    zip.finish()?.flush()?;
    Ok(())
}

impl Spread {
    /// How many days of channels have messages.
    pub(crate) fn channel_days(self, messages: usize) -> usize {
        (0..self.channels).map(|channel| self.of_channel(messages, channel).div_ceil(self.day)).sum()
    }

    /// How many of the messages are of a channel.
    fn of_channel(self, messages: usize, channel: usize) -> usize {
        messages * (channel + 1) / self.channels - messages * channel / self.channels
    }
}

/// A date for the nth day: only their order counts.
fn date(day: usize) -> String {
    format!("{:04}-{:02}-{:02}", 2000 + day / 336, day / 28 % 12 + 1, day % 28 + 1)
}

fn person(number: usize) -> Value {
    json!({ "id": format!("U{number:05}"), "team_id": TEAM, "name": format!("person{number}"), "deleted": false,
        "profile": { "real_name": format!("Person {number}"), "display_name": format!("p{number}") } })
}

fn channel(number: usize) -> Value {
    json!({ "id": format!("C{number:05}"), "name": format!("channel-{number}"), "created": FIRST_S, "members": ["U00000"],
        "topic": { "value": "a topic" }, "purpose": { "value": "a purpose" } })
}

/// A word, by its rank: 1 is the commonest.
pub(crate) fn word_of(rank: usize) -> String {
    format!("w{rank:x}")
}

/// A word as often as its rank says: the logarithm of the rank is uniform.
fn word(random: &mut fastrand::Rng) -> String {
    word_of((random.f64() * (WORDS as f64).ln()).exp() as usize)
}

fn message(second: usize, number: usize, random: &mut fastrand::Rng) -> Value {
    let mut text = (0..random.usize(3..30)).map(|_| word(random)).collect::<Vec<_>>().join(" ");
    if random.usize(0..JAPANESE) == 0 {
        for _ in 0..6 {
            text.push_str(JAPANESE_WORDS[random.usize(0..JAPANESE_WORDS.len())]);
        }
    }
    let (ts, user) =
        (format!("{second}.{:06}", number % 1_000_000), format!("U{:05}", random.usize(0..PEOPLE)));
    let elements = json!([{ "type": "rich_text_section", "elements": [{ "type": "text", "text": text }] }]);
    let mut message = json!({
        "type": "message", "user": user, "text": text, "ts": ts, "team": TEAM, "user_team": TEAM, "source_team": TEAM,
        "client_msg_id": format!("{:032x}", random.u128(..)),
        "user_profile": { "real_name": "Person", "display_name": "p", "name": user, "team": TEAM },
        "blocks": [{ "type": "rich_text", "block_id": format!("{:05x}", random.u32(..)), "elements": elements }],
    });
    match random.usize(0..20) {
        0 | 1 => {
            message["thread_ts"] =
                format!("{}.{:06}", second - 60, number.saturating_sub(1) % 1_000_000).into()
        }
        2 => message["reactions"] = json!([{ "name": "tada", "users": ["U00001", "U00002"], "count": 2 }]),
        3 => message["edited"] = json!({ "user": user, "ts": format!("{}.000000", second + 30) }),
        _ => {}
    }
    message
}

//! Generates an export with a given number of messages.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// How messages are spread over channels and days.
#[derive(Clone, Copy)]
pub(crate) struct MessageSpread {
    pub(crate) channels: usize,
    /// Number of messages of a channel per day.
    pub(crate) messages_per_day: usize,
}

/// The spread in most parts of the bench.
pub(crate) const USUAL_SPREAD: MessageSpread = MessageSpread { channels: 100, messages_per_day: 50 };

/// Number of people of an export.
pub(crate) const PEOPLE: usize = 2_000;

pub(crate) const TEAM: &str = "T0BENCH";
const FIRST_S: usize = 1_500_000_000;
const DAY_S: usize = 86_400;

/// Number of different words. The nth word is about n times as rare as the first, as in natural language.
pub(crate) const WORDS: usize = 50_000;

/// One message in this number contains Japanese words.
const JAPANESE: usize = 50;

pub(crate) const JAPANESE_WORDS: [&str; 8] = ["会議", "障害", "対応", "完了", "確認", "資料", "来週", "設計"];

type ExportZip = ZipWriter<BufWriter<File>>;

/// Writes an export of this number of messages.
pub(crate) fn write(path: &Path, messages: usize, spread: MessageSpread) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut zip = with_lists(path, spread)?;
    for channel in 0..spread.channels {
        let message_count = spread.messages_in(messages, channel);
        for first in (0..message_count).step_by(spread.messages_per_day) {
            let day = first / spread.messages_per_day;
            let list = (first..message_count.min(first + spread.messages_per_day))
                .map(|number| message(FIRST_S + day * DAY_S + (number - first) * 60, number, &mut random))
                .collect();
            entry(&mut zip, &format!("channel-{channel}/{}.json", date(day)), &list)?;
        }
    }
    zip.finish()?.flush()?;
    Ok(())
}

/// Writes an export of one more message in each channel, right after those of an export of this many messages.
pub(crate) fn write_next(path: &Path, messages: usize, spread: MessageSpread) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(8);
    let mut zip = with_lists(path, spread)?;
    for channel in 0..spread.channels {
        let number = spread.messages_in(messages, channel);
        let (day, of_day) = (number / spread.messages_per_day, number % spread.messages_per_day);
        let list = json!([message(FIRST_S + day * DAY_S + of_day * 60, number, &mut random)]);
        entry(&mut zip, &format!("channel-{channel}/{}.json", date(day)), &list)?;
    }
    zip.finish()?.flush()?;
    Ok(())
}

/// Begins an export with its people and channels.
fn with_lists(path: &Path, spread: MessageSpread) -> anyhow::Result<ExportZip> {
    let mut zip = ZipWriter::new(BufWriter::new(File::create(path)?));
    entry(&mut zip, "users.json", &(0..PEOPLE).map(person).collect())?;
    entry(&mut zip, "channels.json", &(0..spread.channels).map(channel).collect())?;
    Ok(zip)
}

fn entry(zip: &mut ExportZip, name: &str, list: &Value) -> anyhow::Result<()> {
    zip.start_file(name, SimpleFileOptions::default())?;
    Ok(zip.write_all(&serde_json::to_vec(list)?)?)
}

/// Writes an export of one message with each of these texts, each in a channel of its own.
pub(crate) fn write_texts(path: &Path, texts: &[String]) -> anyhow::Result<()> {
    let mut zip = ZipWriter::new(BufWriter::new(File::create(path)?));
    let mut entry = |name: &str, list: &Value| -> anyhow::Result<()> {
        // Compressed, they would look like an attack.
        zip.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Stored))?;
        Ok(zip.write_all(&serde_json::to_vec(list)?)?)
    };
    entry("users.json", &json!([person(0)]))?;
    entry("channels.json", &(0..texts.len()).map(channel).collect())?;
    for (number, text) in texts.iter().enumerate() {
        let message = json!({ "type": "message", "user": "U00000", "team": TEAM, "ts": format!("{FIRST_S}.000100"), "text": text });
        entry(&format!("channel-{number}/{}.json", date(0)), &json!([message]))?;
    }
    zip.finish()?.flush()?;
    Ok(())
}

/// Returns the id of the nth channel.
pub(crate) fn channel_id(number: usize) -> String {
    format!("C{number:05}")
}

impl MessageSpread {
    /// Returns the number of channel days with messages.
    pub(crate) fn channel_days(self, messages: usize) -> usize {
        (0..self.channels)
            .map(|channel| self.messages_in(messages, channel).div_ceil(self.messages_per_day))
            .sum()
    }

    /// Returns the number of messages in a channel.
    fn messages_in(self, messages: usize, channel: usize) -> usize {
        messages * (channel + 1) / self.channels - messages * channel / self.channels
    }
}

/// Returns a date for the nth day. Only the order of the dates matters.
fn date(day: usize) -> String {
    format!("{:04}-{:02}-{:02}", 2000 + day / 336, day / 28 % 12 + 1, day % 28 + 1)
}

fn person(number: usize) -> Value {
    json!({ "id": format!("U{number:05}"), "team_id": TEAM, "name": format!("person{number}"), "deleted": false,
        "profile": { "real_name": format!("Person {number}"), "display_name": format!("p{number}") } })
}

fn channel(number: usize) -> Value {
    json!({ "id": channel_id(number), "name": format!("channel-{number}"), "created": FIRST_S, "members": ["U00000"],
        "topic": { "value": "a topic" }, "purpose": { "value": "a purpose" } })
}

/// Returns the word of a rank; rank 1 is the most frequent.
pub(crate) fn word_of_rank(rank: usize) -> String {
    format!("w{rank:x}")
}

/// Returns a random word, as frequent as its rank requires: the logarithm of the rank is uniform.
fn word(random: &mut fastrand::Rng) -> String {
    word_of_rank((random.f64() * (WORDS as f64).ln()).exp() as usize)
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

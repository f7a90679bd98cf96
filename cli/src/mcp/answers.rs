//! The results of tool calls, read from the archive.

use anyhow::bail;
use jiff::tz::TimeZone;
use ports::archive::{Item, Query};
use reader::channels::{ChannelList, ChannelOrder};
use reader::find;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::permalink;
use reader::range::{TimeRange, ts_from_micros};
use reader::rows::{self, VisibleRows};
use reader::search::document;
use reader::search::query::SearchQuery;
use reader::text::{self, MessageText};
use reader::thread::replies;
use rules::project;
use rules::view::MessageView;
use search::hits::SearchHit;
use serde_json::{Map, Value, json};
use slack::ids::{FileId, Ts};

use super::shown::{self, HIT_TEXT, Kept, MAX_NAME_CHARS, ShownChannel, WHOLE_TEXT};
use super::tools::{HITS, ListChannelsCall, MESSAGES, ReadChannelCall, ReadThreadCall, SearchCall, ToolCall};
use crate::plain;
use crate::read::{ReadError, TimeBound, with_plain_text};
use crate::search::{SearchOptions, SearchableArchive};
use crate::zone::Zone;

/// Maximum number of channels in an answer, because each is looked up separately.
const MAX_CHANNELS: usize = 200;

/// Maximum number of replies that are read for an answer, which is more than fit.
const MAX_REPLIES: usize = 1_000;

/// Slack limits topics and purposes to 250 characters; a forged one may be longer.
const MAX_TOPIC_CHARS: usize = 250;

/// Answers calls from one archive.
pub(super) struct ToolAnswers {
    searchable: SearchableArchive,
    zone: Zone,
}

impl ToolAnswers {
    pub(super) fn new(searchable: SearchableArchive, zone: Zone) -> Self {
        Self { searchable, zone }
    }

    /// Answers a call. The assistant receives the error.
    pub(super) async fn answer(&self, call: ToolCall) -> anyhow::Result<Value> {
        match call {
            ToolCall::Search(call) => self.search(call).await,
            ToolCall::ReadThread(call) => self.read_thread(call).await,
            ToolCall::ReadChannel(call) => self.read_channel(call).await,
            ToolCall::ListChannels(call) => self.list_channels(call).await,
        }
    }

    async fn search(&self, call: SearchCall) -> anyhow::Result<Value> {
        let query = SearchQuery::parse(&call.query)?;
        let (limit, with_deleted) = (HITS.clamp(call.limit), call.include_deleted);
        // Find one message more, to find out whether there are more.
        let options =
            SearchOptions { query, limit: limit + 1, is_ranked: false, with_deleted, before: call.next };
        let (mut answer, notes) = self.searchable.answer(options).await?;
        let is_more = answer.hits.len() > limit;
        answer.hits.truncate(limit);
        let hits = answer.hits.iter().map(|hit| self.hit(hit)).collect();
        let (hits, is_cut) = shown::fit_result(hits, Kept::Beginning);
        let last = hits.len().checked_sub(1).and_then(|last| answer.hits.get(last));
        let next = if is_more || is_cut { last.map(|last| last.position) } else { answer.next };
        let mut head = Map::new();
        shown::set_if_some(&mut head, "next", next);
        shown::set_if_some(&mut head, "notes", (!notes.is_empty()).then_some(notes));
        Ok(shown::answer(head, "messages", hits))
    }

    fn hit(&self, hit: &SearchHit) -> Value {
        let mut shown = shown::channel(&hit.location, hit.channel_name.as_deref());
        let permalink = hit.permalink.clone();
        shown.extend(shown::message(&hit.message, &hit.author, &hit.text, permalink, &self.zone, HIT_TEXT));
        shown::set_if_some(&mut shown, "canvas", hit.canvas.as_ref().map(FileId::as_str));
        if hit.text.len() > HIT_TEXT || hit.canvas.is_some() {
            let snippet: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
            shown.insert("snippet".to_owned(), snippet.into());
        }
        shown.into()
    }

    async fn read_thread(&self, call: ReadThreadCall) -> anyhow::Result<Value> {
        let channel = self.channel(&call.channel).await?;
        let ts = timestamp("ts", &call.ts)?;
        let after = call.after.as_deref().map(|after| timestamp("after", after)).transpose()?;
        let requested = rows::read_root(&channel, &ts).await?;
        let first_ts = requested.as_ref().and_then(MessageView::root_ts).unwrap_or_else(|| ts.clone());
        let is_deleted = requested.as_ref().is_some_and(MessageView::is_deleted);
        let root = if first_ts == ts { requested } else { rows::read_root(&channel, &first_ts).await? };
        let is_included = |message: &MessageView| {
            let is_after = |after: &Ts| message.ts().is_some_and(|ts| ts > after.as_str());
            is_visible(message, call.include_deleted) && after.as_ref().is_none_or(is_after)
        };
        let mut messages: Vec<MessageView> = root.into_iter().filter(is_included).collect();
        let mut replies = replies(&channel, &first_ts);
        while messages.len() <= MAX_REPLIES
            && let Some(page) = replies.next().await?
        {
            messages.extend(page.into_iter().filter(is_included));
        }
        if messages.is_empty() && after.is_none() {
            if is_deleted {
                bail!("message {ts} was deleted: include_deleted shows it");
            }
            return Err(ReadError::UnknownMessage { channel: call.channel, ts }.into());
        }
        let is_more = messages.len() > MAX_REPLIES;
        messages.truncate(MAX_REPLIES);
        self.messages(&channel, messages, Kept::Beginning, is_more).await
    }

    async fn read_channel(&self, call: ReadChannelCall) -> anyhow::Result<Value> {
        let channel = self.channel(&call.channel).await?;
        let range = between(call.after.as_deref(), call.before.as_deref(), self.zone.time_zone())?;
        let kept = if call.after.is_some() { Kept::Beginning } else { Kept::End };
        let limit = MESSAGES.clamp(call.limit);
        let with_deleted = call.include_deleted;
        let visible =
            move |item: &Item| project::message(item).filter(|message| is_visible(message, with_deleted));
        let mut rows =
            VisibleRows::all(&channel, Query::partition(channel.current_location().messages()), visible)
                .within(&range);
        // Read one message more, to find out whether there are more.
        if kept == Kept::End {
            rows.keep_newest(limit + 1).await?;
        }
        let mut messages = Vec::new();
        while messages.len() <= limit
            && let Some(page) = rows.next().await?
        {
            messages.extend(page);
        }
        messages.truncate(limit + 1);
        let is_more = messages.len() > limit;
        if is_more {
            messages.remove(if kept == Kept::End { 0 } else { limit });
        }
        self.messages(&channel, messages, kept, is_more).await
    }

    /// Returns as many messages of a channel as fit, and the timestamp at which the next ones begin.
    async fn messages(
        &self,
        channel: &JoinedChannel<'_>,
        messages: Vec<MessageView>,
        kept: Kept,
        is_more: bool,
    ) -> anyhow::Result<Value> {
        let archive = &*self.searchable.archive;
        let shown_channel = ShownChannel::read(archive, channel.current_location()).await?;
        let texts: Vec<MessageText> =
            messages.iter().map(|message| text::read(message, self.zone.time_zone())).collect();
        let mut names = DisplayNames::for_teams(archive, channel.teams());
        names.learn(&texts).await?;
        let shown = messages.iter().zip(&texts).filter_map(|(message, message_text)| {
            let ts = message.written_at()?;
            let permalink = shown_channel.permalink(&ts, message.root_ts().as_ref());
            let text = document::search_document(message, message_text, &names).text;
            let author = names.author(&message_text.author);
            Some(shown::message(message, &author, &text, permalink, &self.zone, WHOLE_TEXT).into())
        });
        let (shown, is_cut) = shown::fit_result(shown.collect(), kept);
        let mut head = shown::channel(&shown_channel.location, shown_channel.name.as_deref());
        if is_more || is_cut {
            let (name, next) = match kept {
                Kept::Beginning => ("next_after", shown.last()),
                Kept::End => ("next_before", shown.first()),
            };
            shown::set_if_some(&mut head, name, next.map(|message| message["ts"].clone()));
        }
        Ok(shown::answer(head, "messages", shown))
    }

    async fn list_channels(&self, call: ListChannelsCall) -> anyhow::Result<Value> {
        let archive = &*self.searchable.archive;
        let teams =
            find::requested_teams(archive, self.searchable.team.as_ref()).await.map_err(ReadError::from)?;
        let list = ChannelList::read(archive, &teams, ChannelOrder::Name).await?;
        let requested_name =
            call.query.map(|query| permalink::channel(&query).trim_start_matches('#').to_lowercase());
        let mut names = DisplayNames::for_teams(archive, teams);
        let rows = match call.after {
            Some(after) => {
                let at = list.channels().iter().position(|row| row.location.channel.as_str() == after);
                let Some(at) = at else {
                    bail!("after is next_after of an answer, and not {}", cited(&after))
                };
                &list.channels()[at + 1..]
            }
            None => list.channels(),
        };
        let (mut channels, mut is_more) = (Vec::new(), false);
        for row in rows {
            let is_called = |name: &str| {
                row.location.channel.as_str().eq_ignore_ascii_case(name)
                    || row.name.as_ref().is_some_and(|own| own.to_lowercase().contains(name))
            };
            if !requested_name.as_deref().is_none_or(is_called) {
                continue;
            }
            if channels.len() == MAX_CHANNELS {
                is_more = true;
                break;
            }
            let snapshot = row.location.newest(archive).await?.unwrap_or_default();
            if list.successor(&row.location, &snapshot).is_some() {
                continue;
            }
            let snapshot = with_plain_text(&mut names, snapshot).await?;
            let mut shown = shown::channel(&row.location, row.name.as_deref());
            let in_teams = list.teams_of(&row.location.channel);
            shown::set_if_some(&mut shown, "team_ids", (in_teams.len() > 1).then(|| json!(in_teams)));
            for (name, text) in [("topic", snapshot.topic()), ("purpose", snapshot.purpose())] {
                let text = text.filter(|text| !text.is_empty());
                shown::set_if_some(&mut shown, name, text.map(|text| plain::excerpt(text, MAX_TOPIC_CHARS)));
            }
            for mark in snapshot.marks() {
                shown::set_if_some(&mut shown, mark, Some(true));
            }
            channels.push(shown.into());
        }
        let (channels, is_cut) = shown::fit_result(channels, Kept::Beginning);
        let next = channels.last().filter(|_| is_more || is_cut).map(|last| last["channel_id"].clone());
        let mut head = Map::new();
        shown::set_if_some(&mut head, "next_after", next);
        Ok(shown::answer(head, "channels", channels))
    }

    async fn channel(&self, name: &str) -> Result<JoinedChannel<'_>, ReadError> {
        let name = permalink::channel(name);
        Ok(find::find_channel(&*self.searchable.archive, &name, self.searchable.team.as_ref()).await?)
    }
}

fn is_visible(message: &MessageView, with_deleted: bool) -> bool {
    with_deleted || !message.is_deleted()
}

fn timestamp(name: &str, text: &str) -> anyhow::Result<Ts> {
    match permalink::ts(text) {
        Some(ts) => Ok(ts),
        None => bail!("{name} is a message's timestamp, such as 1620000000.000200, and not {}", cited(text)),
    }
}

/// Returns the range between two bounds, both of which are exclusive if they are messages.
fn between(after: Option<&str>, before: Option<&str>, zone: &TimeZone) -> anyhow::Result<TimeRange> {
    let bound = |name: &str, text: Option<&str>| -> anyhow::Result<Option<TimeBound>> {
        let Some(text) = text else { return Ok(None) };
        match TimeBound::parse(text) {
            Ok(bound) => Ok(Some(bound)),
            Err(why) => bail!("{name}: {why}, and not {}", cited(text)),
        }
    };
    let since = bound("after", after)?.map(|after| match after {
        TimeBound::Message(ts) => ts_from_micros(ts.micros() + 1),
        TimeBound::Moment(_) | TimeBound::Clock(_) | TimeBound::DaysBefore(..) => after.first(zone),
    });
    Ok(TimeRange { since, until: bound("before", before)?.map(|before| before.first(zone)) })
}

fn cited(text: &str) -> String {
    format!("{:?}", plain::excerpt(text, MAX_NAME_CHARS))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use process::config::zone::{NamedZone, ZoneArgs};

    use super::*;
    use crate::fixture::CliFixture;

    /// Messages per round, of which every third is a reply to the first.
    const MESSAGES: usize = 12;
    const ROUNDS: u64 = 4;

    /// Returns a value of any type and size.
    fn any_value(random: &mut fastrand::Rng, depth: usize) -> Value {
        let text = |random: &mut fastrand::Rng| {
            let unit = *random.choice(&["x", "\"", "\\", "🎉", "\n", "<", "\u{1}"]).unwrap();
            unit.repeat(*random.choice(&[0, 1, 100, 4_000, 30_000]).unwrap())
        };
        match random.u8(..if depth == 0 { 5 } else { 9 }) {
            0 => Value::Null,
            1 => random.bool().into(),
            2 => json!(random.i64(..)),
            3 | 4 => text(random).into(),
            5 | 6 => (0..random.usize(..40)).map(|_| any_value(random, depth - 1)).collect(),
            7 => json!({ text(random): any_value(random, depth - 1) }),
            _ => (0..random.usize(..40))
                .map(|_| json!({ "id": any_value(random, 0), "name": any_value(random, 0), "count": any_value(random, 0) }))
                .collect(),
        }
    }

    /// Reads all pages of a tool, and returns the identifying field of all items in the order of the pages.
    async fn read_all(
        answers: &ToolAnswers,
        texts: &BTreeMap<String, String>,
        tool: &str,
        arguments: Value,
        next: [&str; 2],
        id: &str,
    ) -> Vec<String> {
        let (mut read, mut arguments) = (Vec::new(), arguments);
        loop {
            let Value::Object(call) = arguments.clone() else { panic!("{arguments}") };
            let call = ToolCall::read(tool, call).unwrap().unwrap();
            let page = answers.answer(call).await.unwrap();
            assert!(page.to_string().len() + json!(page.to_string()).to_string().len() < 65_536, "{tool}");
            let items = page["messages"].as_array().or(page["channels"].as_array()).unwrap();
            assert!(!items.is_empty() || page[next[0]].is_null(), "{tool}: a page makes no progress: {page}");
            for item in items {
                let is_said = item["cut"].as_array().is_some_and(|cut| cut.contains(&"text".into()));
                let whole = item["ts"].as_str().map_or("", |ts| &texts[ts]);
                assert!(is_said || item["text"].as_str().unwrap_or_default().starts_with(whole), "{item}");
                read.push(item[id].as_str().unwrap().to_owned());
            }
            if page[next[0]].is_null() {
                return read;
            }
            arguments[next[1]] = page[next[0]].clone();
        }
    }

    #[tokio::test]
    async fn pages_reach_every_item_whatever_the_types_and_sizes_of_its_fields() {
        for round in 0..ROUNDS {
            let random = &mut fastrand::Rng::with_seed(round);
            let fixture = CliFixture::open().await;
            let (mut all, mut thread, mut texts) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
            let root = "1700000000.000100";
            for number in 0..MESSAGES {
                let ts = format!("17000000{number:02}.000100");
                let text = format!("word {}", "\"".repeat(random.usize(..20_000)));
                let mut fields = json!({ "text": text });
                texts.insert(ts.clone(), text);
                for name in
                    ["files", "reactions", "username", "edited", "icons", "attachments", "user", "bot_id"]
                {
                    if random.u8(..3) == 0 {
                        let value = any_value(random, 2);
                        let is_long = value.to_string().len() > 60_000;
                        fields[name] = if is_long { "\u{1}".repeat(30_000).into() } else { value };
                    }
                }
                if number % 3 == 0 && number > 0 {
                    fields["thread_ts"] = root.into();
                    thread.insert(ts.clone());
                }
                fixture.change("T1", "C1", &ts, "1700009999.000100", fields).await;
                all.insert(ts);
            }
            thread.insert(root.to_owned());
            let mut channels = BTreeSet::new();
            for number in 0..MESSAGES {
                let channel = format!("C2{number:02}");
                let text = "\"".repeat(random.usize(..3_000));
                let name = format!("n{}", "\"".repeat(random.usize(..390)));
                fixture.channel("T1", &channel, "1700000001.000000", &name).await;
                fixture
                    .channel_notice("T1", &channel, "1700000002.000000", "channel_topic", ("topic", &text))
                    .await;
                channels.insert(channel);
            }
            channels.insert("C1".to_owned());
            let zone = Zone::from_args(&ZoneArgs { tz: Some(NamedZone::parse("UTC").unwrap()) });
            let index = fixture.data().data.data.join("index.db");
            let answers =
                ToolAnswers::new(SearchableArchive::new(&fixture.backend, index, None, &zone), zone);
            // A search itself brings the index up to date for a short time only.
            answers.searchable.activity(true).await.unwrap();
            let in_channel = json!({ "channel": "C1", "limit": 1 + random.usize(..30) });
            let of_thread = json!({ "channel": "C1", "ts": root });
            let after = json!({ "channel": "C1", "limit": 1 + random.usize(..30), "after": "1.000000" });
            for (tool, arguments, next, id, expected) in [
                ("read_channel", in_channel, ["next_before", "before"], "ts", &all),
                ("read_channel", after, ["next_after", "after"], "ts", &all),
                ("read_thread", of_thread, ["next_after", "after"], "ts", &thread),
                (
                    "search",
                    json!({ "query": "word", "limit": 4 + random.usize(..30) }),
                    ["next"; 2],
                    "ts",
                    &all,
                ),
                ("list_channels", json!({}), ["next_after", "after"], "channel_id", &channels),
            ] {
                let read = read_all(&answers, &texts, tool, arguments, next, id).await;
                assert_eq!(read.len(), expected.len(), "round {round}: {tool}");
                assert_eq!(&read.into_iter().collect::<BTreeSet<_>>(), expected, "round {round}: {tool}");
            }
        }
    }
}

//! What the archive answers.

use anyhow::bail;
use jiff::tz::TimeZone;
use ports::archive::{Item, Query};
use reader::channels::{ChannelList, ChannelOrder};
use reader::find;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::permalink;
use reader::range::{TimeRange, ts_of};
use reader::rows::{self, VisibleRows};
use reader::search::document;
use reader::search::query::SearchQuery;
use reader::text::{self, MessageText};
use reader::thread::{replies, root_ts};
use rules::project;
use search::hits::SearchHit;
use serde_json::{Map, Value, json};
use slack::ids::Ts;

use super::shown::{self, HIT_TEXT, Kept, MAX_NAME_CHARS, ShownChannel, WHOLE_TEXT};
use super::tools::{HITS, ListChannelsCall, MESSAGES, ReadChannelCall, ReadThreadCall, SearchCall, ToolCall};
use crate::plain;
use crate::read::{ReadError, TimeBound, readable};
use crate::search::{SearchOptions, SearchableArchive};
use crate::zone::Zone;

/// Channels of one answer: each is looked up by itself.
const MAX_CHANNELS: usize = 200;

/// Replies that are read for one answer: more than fit it.
const MAX_REPLIES: usize = 1_000;

/// Topics and purposes end at 250 characters in Slack; a forged one may not.
const MAX_TOPIC_CHARS: usize = 250;

/// Answers from one archive.
pub(super) struct ToolAnswers {
    place: SearchableArchive,
    zone: Zone,
}

impl ToolAnswers {
    pub(super) fn new(place: SearchableArchive, zone: Zone) -> Self {
        Self { place, zone }
    }

    /// Answers a call. An error is for the assistant.
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
        let limit = HITS.of(call.limit);
        let wanted = SearchOptions { query, limit, is_ranked: false, with_deleted: call.include_deleted };
        let (answer, notes) = self.place.answer(wanted).await?;
        let is_full = answer.hits.len() == limit;
        let hits = answer.hits.iter().map(|hit| self.hit(hit)).collect();
        let (hits, is_cut) = shown::fitting(hits, Kept::Beginning);
        let mut head = Map::new();
        shown::set(&mut head, "has_more", (is_full || is_cut).then_some(true));
        shown::set(&mut head, "notes", (!notes.is_empty()).then_some(notes));
        Ok(shown::answer(head, "messages", hits))
    }

    fn hit(&self, hit: &SearchHit) -> Value {
        let mut shown = shown::channel(&hit.place, hit.channel_name.as_deref());
        let permalink = hit.permalink.clone();
        shown.extend(shown::message(&hit.message, &hit.author, &hit.text, permalink, &self.zone, HIT_TEXT));
        if hit.text.len() > HIT_TEXT {
            let snippet: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
            shown.insert("snippet".to_owned(), snippet.into());
        }
        shown.into()
    }

    async fn read_thread(&self, call: ReadThreadCall) -> anyhow::Result<Value> {
        let channel = self.channel(&call.channel).await?;
        let ts = timestamp("ts", &call.ts)?;
        let after = call.after.as_deref().map(|after| timestamp("after", after)).transpose()?;
        let asked = rows::message(&channel, &ts).await?;
        let first_ts = asked.as_ref().and_then(root_ts).unwrap_or_else(|| ts.clone());
        let is_deleted = asked.as_ref().is_some_and(|asked| asked["deleted"] == true);
        let root = if first_ts == ts { asked } else { rows::message(&channel, &first_ts).await? };
        let is_wanted = |message: &Value| {
            let is_after = |after: &Ts| message["ts"].as_str().is_some_and(|ts| ts > after.as_str());
            is_visible(message, call.include_deleted) && after.as_ref().is_none_or(is_after)
        };
        let mut messages: Vec<Value> = root.into_iter().filter(is_wanted).collect();
        let mut replies = replies(&channel, &first_ts);
        while messages.len() <= MAX_REPLIES
            && let Some(page) = replies.next().await?
        {
            messages.extend(page.into_iter().filter(is_wanted));
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
        let limit = MESSAGES.of(call.limit);
        let with_deleted = call.include_deleted;
        let visible =
            move |item: &Item| project::message(item).filter(|message| is_visible(message, with_deleted));
        let mut rows =
            VisibleRows::all(&channel, Query::partition(channel.main().messages()), visible).within(&range);
        // One more tells whether there are more.
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

    /// Messages of one channel, as many as fit, and where the next ones begin.
    async fn messages(
        &self,
        channel: &JoinedChannel<'_>,
        messages: Vec<Value>,
        kept: Kept,
        is_more: bool,
    ) -> anyhow::Result<Value> {
        let archive = &*self.place.archive;
        let of = ShownChannel::read(archive, channel.main()).await?;
        let texts: Vec<MessageText> = messages.iter().map(text::read).collect();
        let mut names = DisplayNames::in_teams(archive, channel.teams());
        names.learn(&texts).await?;
        let shown = messages.iter().zip(&texts).filter_map(|(message, said)| {
            let ts = Ts::parse(message["ts"].as_str()?).ok()?;
            let permalink = of.permalink(&ts, root_ts(message).as_ref());
            let text = document::of(message, said, &names).text;
            let author = names.author(&said.author);
            Some(shown::message(message, &author, &text, permalink, &self.zone, WHOLE_TEXT).into())
        });
        let (shown, is_cut) = shown::fitting(shown.collect(), kept);
        let mut head = shown::channel(&of.place, of.name.as_deref());
        if is_more || is_cut {
            let (name, next) = match kept {
                Kept::Beginning => ("next_after", shown.last()),
                Kept::End => ("next_before", shown.first()),
            };
            shown::set(&mut head, name, next.map(|message| message["ts"].clone()));
        }
        Ok(shown::answer(head, "messages", shown))
    }

    async fn list_channels(&self, call: ListChannelsCall) -> anyhow::Result<Value> {
        let archive = &*self.place.archive;
        let teams =
            find::teams_asked_for(archive, self.place.team.as_ref()).await.map_err(ReadError::from)?;
        let list = ChannelList::read(archive, &teams, ChannelOrder::Name).await?;
        let wanted =
            call.query.map(|query| permalink::channel(&query).trim_start_matches('#').to_lowercase());
        let mut names = DisplayNames::in_teams(archive, teams);
        let (mut channels, mut has_more) = (Vec::new(), false);
        for row in list.channels() {
            let is_called = |wanted: &str| {
                row.place.channel.as_str().eq_ignore_ascii_case(wanted)
                    || row.name.as_ref().is_some_and(|name| name.to_lowercase().contains(wanted))
            };
            if !wanted.as_deref().is_none_or(is_called) {
                continue;
            }
            if channels.len() == MAX_CHANNELS {
                has_more = true;
                break;
            }
            let snapshot = row.place.newest(archive).await?.unwrap_or(Value::Null);
            if list.goes_on_as(&row.place, &snapshot).is_some() {
                continue;
            }
            let snapshot = readable(&mut names, snapshot).await?;
            let mut shown = shown::channel(&row.place, row.name.as_deref());
            let in_teams = list.teams_of(&row.place.channel);
            shown::set(&mut shown, "team_ids", (in_teams.len() > 1).then(|| json!(in_teams)));
            for name in ["topic", "purpose"] {
                let text = snapshot[name].as_str().filter(|text| !text.is_empty());
                shown::set(&mut shown, name, text.map(|text| plain::excerpt(text, MAX_TOPIC_CHARS)));
            }
            for (name, is_set) in [
                ("archived", snapshot["archived"] == true),
                ("deleted", snapshot["deleted"] == true),
                ("private", snapshot["visibility"] == "private"),
                ("shared", snapshot["ext_shared"] == true),
            ] {
                shown::set(&mut shown, name, is_set.then_some(true));
            }
            channels.push(shown.into());
        }
        let (channels, is_cut) = shown::fitting(channels, Kept::Beginning);
        let mut head = Map::new();
        shown::set(&mut head, "has_more", (has_more || is_cut).then_some(true));
        Ok(shown::answer(head, "channels", channels))
    }

    async fn channel(&self, called: &str) -> Result<JoinedChannel<'_>, ReadError> {
        let called = permalink::channel(called);
        Ok(find::channel(&*self.place.archive, &called, self.place.team.as_ref()).await?)
    }
}

fn is_visible(message: &Value, with_deleted: bool) -> bool {
    with_deleted || message["deleted"] != true
}

fn timestamp(name: &str, text: &str) -> anyhow::Result<Ts> {
    match permalink::ts(text) {
        Some(ts) => Ok(ts),
        None => bail!("{name} is a message's timestamp, such as 1620000000.000200, and not {}", cited(text)),
    }
}

/// What lies between two bounds. Neither of two messages is between them.
fn between(after: Option<&str>, before: Option<&str>, zone: &TimeZone) -> anyhow::Result<TimeRange> {
    let bound = |name: &str, text: Option<&str>| -> anyhow::Result<Option<TimeBound>> {
        let Some(text) = text else { return Ok(None) };
        match TimeBound::parse(text) {
            Ok(bound) => Ok(Some(bound)),
            Err(why) => bail!("{name}: {why}, and not {}", cited(text)),
        }
    };
    let since = bound("after", after)?.map(|after| match after {
        TimeBound::Message(ts) => ts_of(ts.micros() + 1),
        TimeBound::Moment(_) | TimeBound::Clock(_) => after.first(zone),
    });
    Ok(TimeRange { since, until: bound("before", before)?.map(|before| before.first(zone)) })
}

fn cited(text: &str) -> String {
    format!("{:?}", plain::excerpt(text, MAX_NAME_CHARS))
}

//! The figures of single messages, under the names of channelstats.

use std::collections::HashMap;

use ports::archive::{ArchiveError, Item};
use rules::figures::message::{date, mentions, named_root_author, reactions, reactions_text, words};
use rules::view::MessageView;
use rules::{message, project};
use serde_json::{Value, json};
use slack::ids::{ChannelId, Ts, UserId};

use crate::joined::JoinedChannel;
use crate::thread;

/// Returns the figures that depend on the message alone; `None` for a row whose key is not a message's.
fn own(row: &Item, message: &MessageView) -> Option<Value> {
    let ts = Ts::parse(&row.key.timestamp).ok()?;
    let channel = row.key.item_id.rsplit('#').next().and_then(|id| ChannelId::parse(id).ok())?;
    let text = message.text().unwrap_or_default();
    let reactions = reactions(row);
    Some(json!({
        "cid_ts": format!("{channel}_{ts}"),
        "date": date(&ts),
        "word_count": words(text),
        "mentions": mentions(text, message.user()).join(":"),
        "reactions_text": reactions_text(&reactions),
        "reaction_count": reactions.values().map(Vec::len).sum::<usize>(),
    }))
}

/// Returns a message as readers see it, with the figures that depend on the message alone.
pub fn with_own_figures(row: &Item) -> Option<MessageView> {
    let mut seen = project::message(row)?;
    let figures = own(row, &seen);
    if let (Value::Object(seen), Some(Value::Object(figures))) = (seen.json_mut(), figures) {
        seen.extend(figures);
    }
    Some(seen)
}

/// Adds the figures that depend on a message's thread.
pub struct ThreadFigures<'a> {
    channel: &'a JoinedChannel<'a>,
    root_authors: HashMap<Ts, Option<String>>,
}

impl<'a> ThreadFigures<'a> {
    /// Returns a helper for the messages of a channel.
    pub fn new(channel: &'a JoinedChannel<'a>) -> Self {
        Self { channel, root_authors: HashMap::new() }
    }

    /// Adds the thread figures to a message as readers see it.
    pub async fn add(&mut self, message: &mut MessageView) -> Result<(), ArchiveError> {
        let Some(ts) = message.written_at() else { return Ok(()) };
        let root_ts = message.root_ts();
        let is_reply = root_ts.as_ref().is_some_and(|root_ts| *root_ts != ts);
        let replies = if is_reply { Vec::new() } else { replies_with_authors(self.channel, &ts).await? };
        let is_head = !is_reply && (root_ts.is_some() || !replies.is_empty());
        let parent_user = match &root_ts {
            Some(root_ts) if is_reply => self.root_author(root_ts, message).await?,
            Some(_) | None => message.user().filter(|_| is_head).map(str::to_owned),
        };
        let text: Vec<String> = replies.iter().map(|(author, ts)| format!("{author}:{ts}")).collect();
        let figures = json!({
            "parent_user_id": parent_user,
            "replies": text.join(","),
            "reply_count": replies.len(),
            "is_threadhead": is_head,
            "is_threaded": is_head || is_reply,
        });
        if let (Value::Object(seen), Value::Object(figures)) = (message.json_mut(), figures) {
            seen.extend(figures);
        }
        Ok(())
    }

    async fn root_author(
        &mut self,
        root_ts: &Ts,
        reply: &MessageView,
    ) -> Result<Option<String>, ArchiveError> {
        if let Some(known) = self.root_authors.get(root_ts) {
            return Ok(known.clone());
        }
        let root = self.channel.message(root_ts).await?;
        let author = root.as_ref().and_then(message::author).map(str::to_owned);
        let author = author.or_else(|| named_root_author(reply.raw_event()?));
        self.root_authors.insert(root_ts.clone(), author.clone());
        Ok(author)
    }
}

/// Returns the author, a person or an app, and the timestamp of each reply that was not deleted, oldest
/// first.
pub async fn replies_with_authors(
    channel: &JoinedChannel<'_>,
    root_ts: &Ts,
) -> Result<Vec<(String, Ts)>, ArchiveError> {
    let mut replies = Vec::new();
    let see = |reply: &Item| {
        let author = ["user", "bot_id"].into_iter().find_map(|name| reply.text(name));
        let author = author.filter(|author| UserId::parse(author).is_ok()).unwrap_or_default();
        replies.extend(Ts::parse(&reply.key.timestamp).map(|ts| (author.to_owned(), ts)));
    };
    thread::each_reply(channel, root_ts, see).await?;
    Ok(replies)
}

/// Returns the number of replies to a message that were not deleted.
pub(super) async fn reply_count(channel: &JoinedChannel<'_>, root_ts: &Ts) -> Result<u64, ArchiveError> {
    let mut count = 0;
    let see = |reply: &Item| count += u64::from(Ts::parse(&reply.key.timestamp).is_ok());
    thread::each_reply(channel, root_ts, see).await?;
    Ok(count)
}

//! The input of a processor: the question, and the newest messages of its thread in the archive, limited by
//! bytes. It never contains messages of another channel, or deleted ones.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ports::archive::{ArchiveError, ItemKey};
use processor::{ContextMessage, NamedId, Prompt};
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::text::{self, MessageText, flat};
use reader::{find, joined::ChannelOfTeam, rows, thread};
use rules::question::QuestionId;
use rules::question::recognition::without_mention;
use rules::question::rows::{QuestionRow, channel_name, file_keys};
use rules::view::MessageView;
use serde_json::json;

use super::Responder;

/// A message of the thread before the question.
struct EarlierMessage {
    ts: String,
    message_text: MessageText,
}

impl Responder {
    /// The prompt of a question, with all its context.
    pub(super) async fn prompt(&self, question: &QuestionRow) -> Result<Prompt, ArchiveError> {
        let archive = &*self.ports.archive;
        let QuestionRow { id, content: asked, .. } = question;
        let raw = match &asked.mentioned {
            Some(app) => without_mention(&asked.text, app),
            None => asked.text.clone(),
        };
        let question_text = text::read(
            &MessageView::from(json!({ "text": raw, "user": asked.user.as_str() })),
            &TimeZone::UTC,
        );
        let before = self.before(id).await?;
        let mut names = DisplayNames::new(archive, id.team.clone());
        names
            .learn(
                before.iter().map(|before| &before.message_text).chain([&question_text]).collect::<Vec<_>>(),
            )
            .await?;
        let row = archive.get(&ItemKey::question(&id.team, &id.channel, &id.ts)).await?;
        let channel_name = row.as_ref().and_then(channel_name).map(str::to_owned);
        Ok(Prompt {
            id: id.name(),
            team_id: id.team.to_string(),
            channel: NamedId { id: id.channel.to_string(), name: channel_name },
            thread_ts: id.thread_ts.to_string(),
            asker: NamedId {
                id: asked.user.to_string(),
                name: Some(names.person_name(asked.user.as_str()).to_owned())
                    .filter(|name| name != asked.user.as_str()),
            },
            now: Timestamp::from_millisecond(self.ports.clock.now().0).unwrap_or_default().to_string(),
            question: plain(&question_text, &names),
            context: newest_within(self.limits.context_bytes, before, &names),
            files: row.iter().flat_map(file_keys).map(str::to_owned).collect(),
            raw,
            is_mention: asked.mentioned.is_some(),
        })
    }

    /// The messages of the thread before the question, oldest first.
    async fn before(&self, id: &QuestionId) -> Result<Vec<EarlierMessage>, ArchiveError> {
        let archive = &*self.ports.archive;
        if id.ts == id.thread_ts || self.limits.context_bytes == 0 {
            return Ok(Vec::new());
        }
        let teams = find::teams(archive).await?;
        let location = ChannelOfTeam { team: id.team.clone(), channel: id.channel.clone() };
        let channel = find::joined_channel(archive, &location, &teams).await?;
        messages_before(&channel, id).await
    }
}

async fn messages_before(
    channel: &JoinedChannel<'_>,
    id: &QuestionId,
) -> Result<Vec<EarlierMessage>, ArchiveError> {
    let mut messages: Vec<MessageView> = Vec::new();
    messages.extend(rows::read_message(channel, &id.thread_ts).await?);
    let mut replies = thread::replies(channel, &id.thread_ts);
    while let Some(page) = replies.next().await? {
        messages.extend(page);
    }
    let is_before = |message: &MessageView| {
        let ts = message.written_at();
        !message.is_deleted() && ts.is_some_and(|ts| ts.micros() < id.ts.micros())
    };
    let earlier = messages.iter().filter(|message| is_before(message));
    Ok(earlier
        .map(|message| EarlierMessage {
            ts: message.ts().unwrap_or_default().to_owned(),
            message_text: text::read(message, &TimeZone::UTC),
        })
        .collect())
}

/// The newest messages that fit into this number of bytes.
fn newest_within(
    max_bytes: usize,
    before: Vec<EarlierMessage>,
    names: &DisplayNames<'_>,
) -> Vec<ContextMessage> {
    let mut remaining = max_bytes;
    let mut kept: Vec<ContextMessage> = Vec::new();
    for EarlierMessage { ts, message_text } in before.into_iter().rev() {
        let message = ContextMessage {
            ts,
            user_id: message_text.author.user.clone(),
            name: names.author(&message_text.author),
            text: plain(&message_text, names),
        };
        let Some(rest) = remaining.checked_sub(message.text.len() + message.name.len()) else { break };
        remaining = rest;
        kept.push(message);
    }
    kept.reverse();
    kept
}

fn plain(message_text: &MessageText, names: &DisplayNames<'_>) -> String {
    let lines: Vec<String> = message_text.lines.iter().map(|line| flat::line(line, names)).collect();
    lines.join("\n").trim().to_owned()
}

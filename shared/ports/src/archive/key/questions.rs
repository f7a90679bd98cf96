//! Keys of the responder's rows.

use slack::ids::{ChannelId, TeamId, Ts};

use crate::archive::ItemKey;

impl ItemKey {
    /// A question to the responder, by the message that asks it.
    pub fn question(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(questions(team), format!("{channel}#{ts}"))
    }

    /// The answer to a question, and its progress of posting.
    pub fn answer(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(answers(team), format!("{channel}#{ts}"))
    }

    /// A record that a question was answered, and with what.
    pub fn responded(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(responded(team), format!("{channel}#{ts}"))
    }

    /// A thread in which the responder has posted.
    pub fn bot_thread(team: &TeamId, channel: &ChannelId, thread_ts: &Ts) -> Self {
        Self::new(format!("botthread#{team}"), format!("{channel}#{thread_ts}"))
    }

    /// A message that the responder has posted.
    pub fn bot_message(team: &TeamId, channel: &ChannelId, posted_ts: &Ts) -> Self {
        Self::new(bot_messages(team), format!("{channel}#{posted_ts}"))
    }

    /// The number of accepted questions in an hour or in a thread.
    pub fn budget(team: &TeamId, scope: &str) -> Self {
        Self::new(budgets(team), scope)
    }
}

/// The partition of a workspace's questions to the responder: by channel and time, `{channel}#{ts}`.
pub fn questions(team: &TeamId) -> String {
    format!("question#{team}")
}

/// The partition of the answers to these questions, under the same keys.
pub fn answers(team: &TeamId) -> String {
    format!("answer#{team}")
}

/// The partition of the questions that were answered, under the same keys. These rows are permanent.
pub fn responded(team: &TeamId) -> String {
    format!("responded#{team}")
}

/// The partition of the responder's messages: by channel and time, `{channel}#{posted_ts}`.
pub fn bot_messages(team: &TeamId) -> String {
    format!("botmessage#{team}")
}

/// The partition of the responder's budgets.
pub fn budgets(team: &TeamId) -> String {
    format!("budget#{team}")
}

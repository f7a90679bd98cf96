//! Keys of what the responder keeps.

use slack::ids::{ChannelId, TeamId, Ts};

use crate::archive::ItemKey;

impl ItemKey {
    /// A question to the responder: the message that asks it.
    pub fn question(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(questions(team), format!("{channel}#{ts}"))
    }

    /// The answer to a question, and how much of it is posted.
    pub fn answer(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(answers(team), format!("{channel}#{ts}"))
    }

    /// That a question was answered, and with what.
    pub fn responded(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(responded(team), format!("{channel}#{ts}"))
    }

    /// A thread in which the responder has spoken.
    pub fn bot_thread(team: &TeamId, channel: &ChannelId, thread_ts: &Ts) -> Self {
        Self::new(format!("botthread#{team}"), format!("{channel}#{thread_ts}"))
    }

    /// A message that the responder has posted.
    pub fn bot_message(team: &TeamId, channel: &ChannelId, posted_ts: &Ts) -> Self {
        Self::new(bot_messages(team), format!("{channel}#{posted_ts}"))
    }

    /// How many questions of an hour, or of a thread, were taken on.
    pub fn budget(team: &TeamId, of: &str) -> Self {
        Self::new(budgets(team), of)
    }
}

/// The partition of a workspace's questions to the responder: by channel and time, `{channel}#{ts}`.
pub fn questions(team: &TeamId) -> String {
    format!("question#{team}")
}

/// The partition of the answers to them, under the same keys.
pub fn answers(team: &TeamId) -> String {
    format!("answer#{team}")
}

/// The partition of the questions that were answered, under the same keys. They are kept.
pub fn responded(team: &TeamId) -> String {
    format!("responded#{team}")
}

/// The partition of what the responder has posted: by channel and time, `{channel}#{posted_ts}`.
pub fn bot_messages(team: &TeamId) -> String {
    format!("botmessage#{team}")
}

/// The partition of the responder's budgets.
pub fn budgets(team: &TeamId) -> String {
    format!("budget#{team}")
}

//! Keys of what the responder keeps.

use slack::ids::{ChannelId, TeamId, Ts};

use crate::archive::ItemKey;

impl ItemKey {
    /// A question to the responder: the message that asks it.
    #[must_use]
    pub fn question(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(questions(team), format!("{channel}#{ts}"))
    }

    /// The answer to a question, and how much of it is posted.
    #[must_use]
    pub fn answer(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(answers(team), format!("{channel}#{ts}"))
    }

    /// That a question was answered, and with what.
    #[must_use]
    pub fn responded(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(responded(team), format!("{channel}#{ts}"))
    }

    /// A thread in which the responder has spoken.
    #[must_use]
    pub fn bot_thread(team: &TeamId, channel: &ChannelId, thread_ts: &Ts) -> Self {
        Self::new(format!("botthread#{team}"), format!("{channel}#{thread_ts}"))
    }

    /// A message that the responder has posted.
    #[must_use]
    pub fn bot_message(team: &TeamId, channel: &ChannelId, posted_ts: &Ts) -> Self {
        Self::new(bot_messages(team), format!("{channel}#{posted_ts}"))
    }

    /// How many questions of an hour, or of a thread, were taken on.
    #[must_use]
    pub fn budget(team: &TeamId, of: &str) -> Self {
        Self::new(budgets(team), of)
    }
}

/// The partition of a workspace's questions to the responder: by channel and time, `{channel}#{ts}`.
#[must_use]
pub fn questions(team: &TeamId) -> String {
    format!("question#{team}")
}

/// The partition of the answers to them, under the same keys.
#[must_use]
pub fn answers(team: &TeamId) -> String {
    format!("answer#{team}")
}

/// The partition of the questions that were answered, under the same keys. They are kept.
#[must_use]
pub fn responded(team: &TeamId) -> String {
    format!("responded#{team}")
}

/// The partition of what the responder has posted: by channel and time, `{channel}#{posted_ts}`.
#[must_use]
pub fn bot_messages(team: &TeamId) -> String {
    format!("botmessage#{team}")
}

/// The partition of the responder's budgets.
#[must_use]
pub fn budgets(team: &TeamId) -> String {
    format!("budget#{team}")
}

//! The archive content that a workload should produce.

use std::collections::BTreeMap;

use super::workload::{Effect, GeneratedEvent};

/// A message as readers should see it after the workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpectedMessage {
    /// The text of the newest version.
    pub text: String,
    pub deleted: bool,
    /// The texts before each edit that changed them.
    pub replaced: Vec<String>,
    /// The thread it belongs to.
    pub thread_ts: Option<String>,
}

/// Channel → timestamp → message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    pub channels: BTreeMap<String, BTreeMap<String, ExpectedMessage>>,
}

impl Model {
    /// Applies an event that was acked.
    pub fn apply(&mut self, event: &GeneratedEvent) {
        let channel = self.channels.entry(event.channel.clone()).or_default();
        match &event.effect {
            Effect::Posted { ts, text, thread_ts } => {
                let message = channel.entry(ts.clone()).or_default();
                message.text.clone_from(text);
                message.thread_ts.clone_from(thread_ts);
            }
            Effect::Edited { ts, text } => {
                let message = channel.entry(ts.clone()).or_default();
                // Readers show no change where a person saved the same text again.
                if message.text != *text {
                    message.replaced.push(std::mem::replace(&mut message.text, text.clone()));
                }
            }
            Effect::Deleted { ts } => channel.entry(ts.clone()).or_default().deleted = true,
        }
    }

    /// Adds the channels of another model.
    pub fn merge(&mut self, other: Self) {
        for (channel, messages) in other.channels {
            self.channels.entry(channel).or_default().extend(messages);
        }
    }

    /// The expected number of rows.
    pub fn rows(&self) -> usize {
        self.channels.values().map(BTreeMap::len).sum()
    }
}

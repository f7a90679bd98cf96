//! An endless workload: channels of Zipf's popularity, replies, edits and deletions, the same for the same
//! seed.

use std::collections::VecDeque;

use serde_json::Value;

use super::event::EnvelopeShape;
use super::{TEAM, channel_id, event, text, ts, user_id};

/// An edit, a deletion or a reply refers to one of this number of latest messages of its channel.
const RECENT: usize = 128;
/// The first event's clock: a fixed moment, so that a run can be repeated.
const START_MICROS: i64 = 1_700_000_000_000_000;

/// The parameters of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The same seed gives the same events.
    pub seed: u64,
    pub channels: usize,
    /// The number of the first channel, which keeps the channels of concurrent workloads apart.
    pub first_channel: usize,
    /// The number of people who write.
    pub users: usize,
    /// The percentage of events that are edits.
    pub edits_percent: u32,
    /// The percentage of events that are deletions.
    pub deletes_percent: u32,
    /// The percentage of new messages that are replies in a thread.
    pub replies_percent: u32,
    /// The time between two events.
    pub step_micros: i64,
    /// Whether the envelopes have every [`EnvelopeShape`], not only the regular one. Then the existence check
    /// asks Slack about channels more often, which a measurement would contain.
    pub irregular_envelopes: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            seed: 20_261_121,
            channels: 50,
            first_channel: 1,
            users: 200,
            edits_percent: 10,
            deletes_percent: 3,
            replies_percent: 20,
            step_micros: 1_300,
            irregular_envelopes: false,
        }
    }
}

/// One event of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedEvent {
    /// Its id, unique within the workload's channels.
    pub event_id: String,
    pub channel: String,
    /// The request's body.
    pub body: String,
    /// The expected effect on the archive.
    pub effect: Effect,
}

/// The expected effect of an event on the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A message was posted.
    Posted {
        /// Its timestamp.
        ts: String,
        text: String,
        thread_ts: Option<String>,
    },
    /// A person edited a message.
    Edited {
        /// The message's timestamp.
        ts: String,
        /// Its new text.
        text: String,
    },
    /// A message was deleted.
    Deleted {
        /// The message's timestamp.
        ts: String,
    },
}

/// An endless iterator over generated events.
#[derive(Debug)]
pub struct Workload {
    shape: Shape,
    random: fastrand::Rng,
    /// The cumulative weights of the channels.
    popularity: Vec<f64>,
    channels: Vec<VecDeque<Value>>,
    sent: u64,
}

impl Workload {
    /// A workload of the given shape.
    pub fn new(shape: Shape) -> Self {
        let mut total = 0.0;
        let popularity = (1..=shape.channels)
            .map(|rank| {
                total += 1.0 / f64::from(u32::try_from(rank).unwrap_or(u32::MAX));
                total
            })
            .collect();
        Self {
            random: fastrand::Rng::with_seed(shape.seed),
            popularity,
            channels: vec![VecDeque::new(); shape.channels],
            sent: 0,
            shape,
        }
    }

    fn pick_channel(&mut self) -> usize {
        let total = self.popularity.last().copied().unwrap_or_default();
        let at = self.random.f64() * total;
        self.popularity.partition_point(|weight| *weight < at).min(self.shape.channels - 1)
    }

    fn post(&mut self, n: usize, clock: &str) -> (Value, Effect) {
        let user = user_id(self.random.usize(..self.shape.users));
        let length_bytes = text::length_bytes(&mut self.random);
        let text = text::text(&mut self.random, length_bytes);
        let is_reply = self.random.u32(..100) < self.shape.replies_percent;
        let thread_ts = is_reply.then(|| self.pick_recent(n)).flatten().map(|at| self.thread_of(n, at));
        let message = match &thread_ts {
            Some(thread_ts) => event::reply(clock, thread_ts, &user, &text),
            None => event::message(clock, &user, &text),
        };
        let posted = event::posted(&channel_id(self.shape.first_channel + n), &message);
        let recent = &mut self.channels[n];
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(message);
        (posted, Effect::Posted { ts: clock.to_owned(), text, thread_ts })
    }

    fn edit(&mut self, n: usize, at: usize, clock: &str) -> (Value, Effect) {
        let length_bytes = text::length_bytes(&mut self.random);
        let text = text::text(&mut self.random, length_bytes);
        let before = &self.channels[n][at];
        let after = event::edited(before, clock, &text);
        let changed = event::changed(&channel_id(self.shape.first_channel + n), before, &after, clock);
        let effect = Effect::Edited { ts: ts_of(before), text };
        self.channels[n][at] = after;
        (changed, effect)
    }

    fn delete(&mut self, n: usize, at: usize, clock: &str) -> Option<(Value, Effect)> {
        let message = self.channels[n].remove(at)?;
        let deleted = event::deleted(&channel_id(self.shape.first_channel + n), &message, clock);
        Some((deleted, Effect::Deleted { ts: ts_of(&message) }))
    }

    fn pick_recent(&mut self, n: usize) -> Option<usize> {
        let count = self.channels[n].len();
        (count > 0).then(|| self.random.usize(..count))
    }

    /// A reply to a reply belongs to the same thread.
    fn thread_of(&self, n: usize, at: usize) -> String {
        let message = &self.channels[n][at];
        message["thread_ts"].as_str().map_or_else(|| ts_of(message), str::to_owned)
    }
}

fn ts_of(message: &Value) -> String {
    message["ts"].as_str().unwrap_or_default().to_owned()
}

impl Iterator for Workload {
    type Item = GeneratedEvent;

    fn next(&mut self) -> Option<GeneratedEvent> {
        let n = self.pick_channel();
        let Shape { edits_percent, deletes_percent, step_micros, .. } = self.shape;
        let clock = ts(START_MICROS + i64::try_from(self.sent).unwrap_or(i64::MAX) * step_micros);
        let dice = self.random.u32(..100);
        let at = self.pick_recent(n);
        let made = match at {
            Some(at) if dice < edits_percent => Some(self.edit(n, at, &clock)),
            Some(at) if dice < edits_percent + deletes_percent => self.delete(n, at, &clock),
            Some(_) | None => None,
        };
        let (event, effect) = made.unwrap_or_else(|| self.post(n, &clock));
        let event_id = format!("Ev{:04}{:010}", self.shape.first_channel, self.sent);
        self.sent += 1;
        let channel = channel_id(self.shape.first_channel + n);
        let mut body = event::envelope(TEAM, &event_id, &event);
        if self.shape.irregular_envelopes {
            body = EnvelopeShape::ALL[self.random.usize(..EnvelopeShape::ALL.len())].apply(&body);
        }
        Some(GeneratedEvent { event_id, channel, body, effect })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_events() {
        let first: Vec<_> = Workload::new(Shape::default()).take(500).collect();
        assert_eq!(first, Workload::new(Shape::default()).take(500).collect::<Vec<_>>());
        let other = Shape { seed: 1, ..Shape::default() };
        assert_ne!(first, Workload::new(other).take(500).collect::<Vec<_>>());
    }

    #[test]
    fn the_mix_of_events_matches_the_shape() {
        let count = 20_000;
        let events: Vec<_> = Workload::new(Shape::default()).take(count).collect();
        let share = |chosen: &dyn Fn(&Effect) -> bool| {
            events.iter().filter(|event| chosen(&event.effect)).count() as f64 / count as f64
        };
        let edits = share(&|effect| matches!(effect, Effect::Edited { .. }));
        let deletes = share(&|effect| matches!(effect, Effect::Deleted { .. }));
        let replies = share(&|effect| matches!(effect, Effect::Posted { thread_ts: Some(_), .. }));
        assert!((0.09..0.11).contains(&edits), "{edits}");
        assert!((0.02..0.04).contains(&deletes), "{deletes}");
        assert!((0.15..0.20).contains(&replies), "{replies}");
        let mean_bytes = events.iter().map(|event| event.body.len()).sum::<usize>() / count;
        assert!((1100..1300).contains(&mean_bytes), "{mean_bytes}");
    }

    #[test]
    fn event_ids_are_unique_and_popular_channels_come_first() {
        let events: Vec<_> = Workload::new(Shape::default()).take(20_000).collect();
        let ids: HashSet<_> = events.iter().map(|event| &event.event_id).collect();
        assert_eq!(ids.len(), events.len());
        let mut per_channel: HashMap<&str, usize> = HashMap::new();
        for event in &events {
            *per_channel.entry(&event.channel).or_default() += 1;
        }
        assert_eq!(per_channel.len(), 50);
        assert!(per_channel[channel_id(1).as_str()] > 10 * per_channel[channel_id(50).as_str()]);
    }
}

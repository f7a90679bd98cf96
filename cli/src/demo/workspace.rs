//! A week of the made-up workspace as Slack would deliver it: with duplicates and out of order.

use std::collections::BTreeSet;

use fake_slack::event;
use ports::clock::TimestampMs;
use serde_json::Value;

use super::definitions::{ChannelStep, DemoChannel, EMOJI, EMOJI_ALIAS, PEOPLE, SHARES};
use super::event_script::EventScript;
use super::messages::{CHANNELS, REPLIES};
use super::slack;
use super::tally::ArchiveCounts;

/// The time since the week began.
const WEEK_S: i64 = 7 * 24 * 3600;
/// The index of the channel of the highlights.
const RELEASE: usize = 3;
/// The number of successive events that may overtake each other.
const WINDOW: usize = 16;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryKind {
    /// The first delivery of an event.
    Event,
    /// A delivery that Slack retries because it got no response.
    Retry,
    /// The same event with another event id.
    Twin,
    /// A direct message or a message in a private channel.
    Private,
    /// An event with malformed ids.
    Poison,
    /// A request signed with another secret.
    Forged,
    /// Slack reports that it delivered nothing for a minute.
    RateLimited,
}

/// A request to send.
#[derive(Debug, Clone)]
pub(super) struct DemoRequest {
    pub(super) kind: DeliveryKind,
    pub(super) body: String,
}

/// Messages that the summary shows.
#[derive(Debug)]
pub(super) struct Highlights {
    pub(super) thread_ts: String,
    pub(super) edited_ts: String,
}

/// The contents of Slack's directory at some time.
#[derive(Debug, Default, Clone)]
pub(super) struct DirectorySnapshot {
    pub(super) at_s: i64,
    pub(super) channels: Vec<Value>,
    pub(super) people: Vec<Value>,
    /// Names and addresses of custom emoji.
    pub(super) emoji: Vec<(String, String)>,
}

/// The week.
pub(super) struct DemoWeek {
    /// The directory before the first event.
    pub(super) before: DirectorySnapshot,
    /// The first requests, in order, so that every channel is known to be public.
    pub(super) opening: Vec<DemoRequest>,
    /// All other requests, out of order and some of them more than once.
    pub(super) rest: Vec<DemoRequest>,
    /// The directory after the last event.
    pub(super) after: DirectorySnapshot,
    /// The number of channels that the app joins.
    pub(super) joined: usize,
    /// The expected contents of the archive after the week.
    pub(super) expected: ArchiveCounts,
    pub(super) highlights: Highlights,
}

impl DemoWeek {
    /// Returns a week that ends at `now`, of a Slack that serves its files at `origin`. The same seed
    /// produces the same week.
    pub(super) fn new(seed: u64, now: TimestampMs, origin: &str) -> Self {
        let mut script = EventScript::new(seed, now.seconds() - WEEK_S, origin);
        let people: Vec<Value> = PEOPLE.iter().map(|person| slack::user(person, origin)).collect();
        let (newcomer, known) = people.split_last().map_or((&Value::Null, &[][..]), |split| split);
        let emoji = emoji(origin);
        let known_emoji = emoji.iter().filter(|(name, _)| name != NEW_EMOJI).cloned().collect();
        let before = directory(&script, known.to_vec(), known_emoji);

        for (n, channel) in CHANNELS.iter().enumerate() {
            for step in steps(channel, 0).filter(|step| matches!(step, ChannelStep::Created(_))) {
                script.step(n, step);
            }
            if !channel.messages.is_empty() {
                script.post(n, "This channel is kept by the archive.", None);
            }
        }
        let opening = std::mem::take(&mut script.events);
        let event = slack::team_join(newcomer, &script.tick());
        script.events.push(event);
        let event = event::emoji_added(NEW_EMOJI, &emoji_url(origin, NEW_EMOJI), &script.tick());
        script.events.push(event);
        let highlights = script.highlights();
        script.chatter();
        script.delete_file();

        let mut ids = (1..).map(|n: u32| format!("Ev0DEMO{n:05}"));
        let opening = opening.iter().map(|event| request(DeliveryKind::Event, &mut ids, event)).collect();
        let rest = script.deliveries(&mut ids);
        script.count_channels();
        script.expected.people = people.len();
        script.expected.images = people.len() + EMOJI.len();
        let hosted_files: BTreeSet<&str> = SHARES
            .iter()
            .filter(|(_, _, file)| slack::hosted_bytes(file).is_some())
            .map(|(_, _, file)| file.id)
            .collect();
        script.expected.files_stored = hosted_files.len();
        script.expected.quarantined = 1;
        script.expected.gaps = 1;
        let after = directory(&script, people, emoji);
        let joined = joinable(&before, &after);
        Self { before, opening, rest, after, joined, expected: script.expected, highlights }
    }
}

/// The emoji that is added during the week.
const NEW_EMOJI: &str = EMOJI[1].0;

fn emoji(origin: &str) -> Vec<(String, String)> {
    let pictures = EMOJI.iter().map(|(name, _)| ((*name).to_owned(), emoji_url(origin, name)));
    pictures.chain([(EMOJI_ALIAS.to_owned(), format!("alias:{}", EMOJI[0].0))]).collect()
}

fn emoji_url(origin: &str, name: &str) -> String {
    format!("{origin}/emoji/{name}.png")
}

fn directory(script: &EventScript, people: Vec<Value>, emoji: Vec<(String, String)>) -> DirectorySnapshot {
    DirectorySnapshot { at_s: script.now_s(), channels: script.listed(), people, emoji }
}

/// Returns the number of channels that can be joined when the app discovers them: in the first directory
/// sync, or on creation.
fn joinable(before: &DirectorySnapshot, after: &DirectorySnapshot) -> usize {
    let ids = |directory: &DirectorySnapshot| -> BTreeSet<String> {
        let open = directory.channels.iter().filter(|channel| channel["is_archived"] != true);
        open.filter_map(|channel| channel["id"].as_str().map(str::to_owned)).collect()
    };
    let created = CHANNELS.iter().filter(|channel| channel.initial_name.is_none()).map(|channel| channel.id);
    let after = ids(after);
    ids(before).len() + created.filter(|id| after.contains(*id)).count()
}

fn steps(channel: &DemoChannel, after: usize) -> impl Iterator<Item = ChannelStep> {
    channel.steps.iter().filter(move |(messages, _)| *messages == after).map(|(_, step)| *step)
}

fn request(kind: DeliveryKind, ids: &mut impl Iterator<Item = String>, event: &Value) -> DemoRequest {
    DemoRequest { kind, body: event::envelope(slack::TEAM, &ids.next().unwrap_or_default(), event) }
}

impl EventScript {
    /// Posts the messages that the summary mentions.
    fn highlights(&mut self) -> Highlights {
        let root = self.post(
            RELEASE,
            "Release 1.4 is ready to go. Anything missing? <https://example.com/changes/1.4> has what changed, and \
             <#C0DESIGN> the new pictures.",
            None,
        );
        let thread_ts = self.start_thread(root);
        self.unfurl(root, "https://example.com/changes/1.4");
        self.post(RELEASE, "The date fix @ben made yesterday?", Some(&thread_ts));
        let answer = self.post(RELEASE, "It's in: all tests pas", Some(&thread_ts));
        self.edit(answer, "It's in: all tests pass.");
        self.edit(answer, "It's in: all tests pass, on all three systems.");
        let regret =
            self.post(RELEASE, "Then I'd ship it before lunch, no one will notice", Some(&thread_ts));
        self.delete(regret);
        let last = self.post(RELEASE, "Shipping at two, when everybody is here.", Some(&thread_ts));
        self.react(last, 4);
        self.react(root, 2);
        Highlights { thread_ts, edited_ts: self.ts(answer) }
    }

    /// Posts the channels' messages, interleaved with their steps.
    fn chatter(&mut self) {
        let longest = CHANNELS.iter().map(|channel| channel.messages.len()).max().unwrap_or_default();
        for n in 0..=longest {
            for (index, channel) in CHANNELS.iter().enumerate() {
                for step in steps(channel, n).filter(|step| !matches!(step, ChannelStep::Created(_))) {
                    self.step(index, step);
                }
                if let Some(line) = channel.messages.get(n) {
                    let message = self.post(index, line, None);
                    self.follow_ups(index, message, line);
                }
            }
            if let Some((channel, text, file)) = SHARES.get(n) {
                let index = CHANNELS.iter().position(|known| known.id == *channel).unwrap_or_default();
                self.share(index, text, file);
            }
        }
    }

    fn follow_ups(&mut self, channel: usize, message: usize, line: &str) {
        if self.random.u32(..100) < 40 {
            let thread_ts = self.start_thread(message);
            for _ in 0..self.random.usize(1..=5) {
                let reply = REPLIES[self.random.usize(..REPLIES.len())];
                self.post(channel, reply, Some(&thread_ts));
            }
        }
        if self.random.u32(..100) < 70 {
            let people = self.random.usize(1..=4);
            self.react(message, people);
        }
        match self.random.u32(..100) {
            0..16 => self.edit(message, &format!("{line} Update: sorted out.")),
            16..22 => self.delete(message),
            22..28 => self.unreact(message),
            28..34 => self.unfurl(message, "https://example.com/"),
            _ => {}
        }
    }

    /// Returns requests for the events, as Slack may deliver them.
    fn deliveries(&mut self, ids: &mut impl Iterator<Item = String>) -> Vec<DemoRequest> {
        let mut requests = Vec::with_capacity(self.events.len() * 2);
        for event in std::mem::take(&mut self.events) {
            let first = request(DeliveryKind::Event, ids, &event);
            match self.random.u32(..100) {
                0..8 => requests.push(DemoRequest { kind: DeliveryKind::Retry, body: first.body.clone() }),
                8..12 => requests.push(request(DeliveryKind::Twin, ids, &event)),
                _ => {}
            }
            requests.push(first);
        }
        for window in requests.chunks_mut(WINDOW) {
            self.random.shuffle(window);
        }
        let secret = |script: &mut Self, text| slack::message(&script.tick(), "U0EVE", text, None);
        let direct = secret(self, "This is between the two of us.");
        let private = secret(self, "Nothing of this channel was ever public.");
        let mut poison = slack::message(&self.tick(), "U0EVE", "Where does this belong?", None);
        poison["ts"] = "yesterday".into();
        let forged = event::posted("C0GENERAL", &secret(self, "Slack never said this."));
        for (kind, event) in [
            (DeliveryKind::Private, slack::with_channel_type("im", event::posted("D0EVEANA", &direct))),
            (DeliveryKind::Private, slack::with_channel_type("group", event::posted("C0SECRET", &private))),
            (DeliveryKind::Poison, event::posted("general#1", &poison)),
            (DeliveryKind::Forged, forged),
        ] {
            let index = self.random.usize(..=requests.len());
            requests.insert(index, request(kind, ids, &event));
        }
        let minute_s = self.now_s() / 60 * 60;
        requests.push(DemoRequest { kind: DeliveryKind::RateLimited, body: slack::rate_limited(minute_s) });
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::SEED;

    fn workspace(seed: u64) -> DemoWeek {
        DemoWeek::new(seed, TimestampMs(1_795_178_096_000), "http://127.0.0.1:1")
    }

    #[test]
    fn a_week_has_everything_and_is_the_same_for_the_same_seed() {
        let week = workspace(SEED);
        let count = |kind| week.rest.iter().filter(|request| request.kind == kind).count();
        let events = count(DeliveryKind::Event) + week.opening.len();
        assert!((300..1_000).contains(&events), "{events}");
        for kind in [
            DeliveryKind::Retry,
            DeliveryKind::Twin,
            DeliveryKind::Private,
            DeliveryKind::Poison,
            DeliveryKind::Forged,
            DeliveryKind::RateLimited,
        ] {
            assert!(count(kind) > 0, "{kind:?}");
        }
        // The week contains every kind of thing that is counted.
        let counted = format!("{:?}", week.expected);
        assert!(!counted.contains(": 0"), "{counted}");
        let bodies =
            |week: &DemoWeek| week.rest.iter().map(|request| request.body.clone()).collect::<Vec<_>>();
        assert_eq!(bodies(&week), bodies(&workspace(SEED)));
    }

    #[test]
    fn the_week_is_in_the_past() {
        for request in workspace(SEED).rest {
            let envelope: Value = serde_json::from_str(&request.body).unwrap();
            let time_s = [&envelope["event_time"], &envelope["minute_rate_limited"]];
            let time_s = time_s.into_iter().find_map(Value::as_i64).unwrap();
            assert!(time_s < 1_795_178_096, "{envelope}");
        }
    }
}

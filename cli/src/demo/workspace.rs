//! A week in the life of the made-up workspace, and how Slack would deliver it: not once, and not in order.

use fastrand::Rng;
use serde_json::{Value, json};
use shared::clock::TimestampMs;

use super::lines::{CHANNELS, Channel, PEOPLE, REACTIONS, REPLIES};
use super::slack;
use super::tally::Tally;

/// How long ago the week began.
const WEEK_S: i64 = 7 * 24 * 3600;
/// Events that may overtake each other.
const WINDOW: usize = 16;

/// What makes a request a special one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first delivery of an event.
    Event,
    /// A delivery that Slack repeats because it missed the answer.
    Retry,
    /// The same event under another id.
    Twin,
    /// A direct message or one of a private channel.
    Private,
    /// An event with malformed ids.
    Poison,
    /// Signed with another secret.
    Forged,
}

/// A request to be sent.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) body: String,
}

/// What a tour shows: messages that are worth a look.
#[derive(Debug)]
pub(super) struct Sights {
    pub(super) channel: &'static str,
    pub(super) thread_ts: String,
    pub(super) edited_ts: String,
}

/// The week.
pub(super) struct Workspace {
    /// What comes first and in order, so that every channel is known to be public.
    pub(super) opening: Vec<Request>,
    /// Everything else, out of order and partly more than once.
    pub(super) rest: Vec<Request>,
    /// What the archive should hold in the end.
    pub(super) expected: Tally,
    pub(super) sights: Sights,
}

/// A message that was posted.
struct Posted {
    channel: &'static str,
    message: Value,
    deleted: bool,
}

struct Stage {
    random: Rng,
    now_s: i64,
    posted: Vec<Posted>,
    events: Vec<Value>,
    expected: Tally,
}

impl Workspace {
    /// A week that ends at `now`. The same seed makes the same week.
    pub(super) fn new(seed: u64, now: TimestampMs) -> Self {
        let mut stage = Stage {
            random: Rng::with_seed(seed),
            now_s: now.seconds() - WEEK_S,
            posted: Vec::new(),
            events: Vec::new(),
            expected: Tally {
                channels: CHANNELS.len(),
                people: PEOPLE.len(),
                quarantined: 1,
                ..Tally::default()
            },
        };
        for (user, name) in PEOPLE {
            let event = slack::user_change(user, name, &stage.tick());
            stage.events.push(event);
        }
        for channel in &CHANNELS {
            let event = slack::channel_created(channel.id, channel.name, &stage.tick());
            stage.events.push(event);
            stage.post(channel, "This channel is kept by the archive.", None);
        }
        let opening = std::mem::take(&mut stage.events);
        let sights = stage.scene();
        stage.chatter();
        let mut ids = (1..).map(|n: u32| format!("Ev0DEMO{n:05}"));
        let opening = opening.iter().map(|event| request(Kind::Event, &mut ids, event)).collect();
        let rest = stage.deliveries(&mut ids);
        Self { opening, rest, expected: stage.expected, sights }
    }
}

fn request(kind: Kind, ids: &mut impl Iterator<Item = String>, event: &Value) -> Request {
    Request { kind, body: slack::envelope(&ids.next().unwrap_or_default(), event) }
}

/// `@ana` as Slack marks a mention up.
fn with_mentions(text: &str) -> String {
    let escaped = text.replace('&', "&amp;");
    PEOPLE.iter().fold(escaped, |text, (id, name)| text.replace(&format!("@{name}"), &format!("<@{id}>")))
}

impl Stage {
    /// Some minutes pass.
    fn tick(&mut self) -> String {
        self.now_s += self.random.i64(20..1_500);
        format!("{}.{:06}", self.now_s, self.random.u32(100..999_000))
    }

    fn person(&mut self) -> &'static str {
        PEOPLE[self.random.usize(..PEOPLE.len())].0
    }

    fn post(&mut self, channel: &Channel, text: &str, thread_ts: Option<&str>) -> usize {
        let (ts, user) = (self.tick(), self.person());
        let message = slack::message(&ts, user, &with_mentions(text), thread_ts);
        self.events.push(slack::posted(channel.id, "channel", &message));
        self.posted.push(Posted { channel: channel.id, message, deleted: false });
        self.expected.messages += 1;
        self.expected.replies += usize::from(thread_ts.is_some());
        self.posted.len() - 1
    }

    fn edit(&mut self, at: usize, text: &str) {
        let edited_ts = self.tick();
        let Posted { channel, message, .. } = &mut self.posted[at];
        let before = message.clone();
        self.expected.edited += usize::from(before["edited"].is_null());
        self.expected.revisions += 1;
        message["text"] = with_mentions(text).into();
        message["edited"] = json!({ "user": message["user"], "ts": edited_ts });
        self.events.push(slack::changed(channel, &before, message, &edited_ts));
    }

    /// Slack adds a preview to a link: a change that nobody made.
    fn unfurl(&mut self, at: usize, url: &str) {
        let event_ts = self.tick();
        let Posted { channel, message, .. } = &mut self.posted[at];
        let before = message.clone();
        message["attachments"] = json!([{ "id": 1, "from_url": url, "fallback": url }]);
        self.events.push(slack::changed(channel, &before, message, &event_ts));
    }

    fn delete(&mut self, at: usize) {
        let event_ts = self.tick();
        let posted = &mut self.posted[at];
        posted.deleted = true;
        self.events.push(slack::deleted(posted.channel, &posted.message, &event_ts));
        self.expected.deleted += 1;
    }

    /// Each person reacts with each name at most once, so that the count is known.
    fn react(&mut self, at: usize, people: usize) {
        let name = REACTIONS[self.random.usize(..REACTIONS.len())];
        for (user, _) in PEOPLE.iter().take(people) {
            let event_ts = self.tick();
            let Posted { channel, message, .. } = &self.posted[at];
            let ts = message["ts"].as_str().unwrap_or_default();
            self.events.push(slack::reaction("reaction_added", channel, ts, user, name, &event_ts));
            self.expected.reactions += 1;
        }
    }

    fn unreact(&mut self, at: usize) {
        let (added, removed) = (self.tick(), self.tick());
        let Posted { channel, message, .. } = &self.posted[at];
        let ts = message["ts"].as_str().unwrap_or_default();
        let user = PEOPLE[0].0;
        self.events.push(slack::reaction("reaction_added", channel, ts, user, "wave", &added));
        self.events.push(slack::reaction("reaction_removed", channel, ts, user, "wave", &removed));
    }

    /// Some roots never learn that they have replies.
    fn start_thread(&mut self, at: usize) -> String {
        self.expected.threads += 1;
        if self.random.u32(..100) < 70 {
            let event_ts = self.tick();
            let Posted { channel, message, .. } = &self.posted[at];
            self.events.push(slack::replied(channel, message, &event_ts));
        }
        self.ts(at)
    }

    fn ts(&self, at: usize) -> String {
        self.posted[at].message["ts"].as_str().unwrap_or_default().to_owned()
    }

    /// What the tour shows.
    fn scene(&mut self) -> Sights {
        let release = &CHANNELS[3];
        let root = self.post(
            release,
            "Release 1.4 is ready to go. Anything missing? <https://example.com/changes/1.4>",
            None,
        );
        let thread_ts = self.start_thread(root);
        self.unfurl(root, "https://example.com/changes/1.4");
        self.post(release, "The date fix @ben made yesterday?", Some(&thread_ts));
        let answer = self.post(release, "It's in: all tests pas", Some(&thread_ts));
        self.edit(answer, "It's in: all tests pass.");
        self.edit(answer, "It's in: all tests pass, on all three systems.");
        let regret =
            self.post(release, "Then I'd ship it before lunch, nobody will notice", Some(&thread_ts));
        self.delete(regret);
        let last = self.post(release, "Shipping at two, when everybody is here.", Some(&thread_ts));
        self.react(last, 4);
        self.react(root, 2);
        Sights { channel: release.id, thread_ts, edited_ts: self.ts(answer) }
    }

    fn chatter(&mut self) {
        let longest = CHANNELS.iter().map(|channel| channel.lines.len()).max().unwrap_or_default();
        for n in 0..longest {
            for channel in &CHANNELS {
                let Some(line) = channel.lines.get(n) else { continue };
                let at = self.post(channel, line, None);
                self.follow_ups(channel, at, line);
            }
        }
    }

    fn follow_ups(&mut self, channel: &Channel, at: usize, line: &str) {
        if self.random.u32(..100) < 40 {
            let thread_ts = self.start_thread(at);
            for _ in 0..self.random.usize(1..=5) {
                let reply = REPLIES[self.random.usize(..REPLIES.len())];
                self.post(channel, reply, Some(&thread_ts));
            }
        }
        if self.random.u32(..100) < 70 {
            let people = self.random.usize(1..=4);
            self.react(at, people);
        }
        match self.random.u32(..100) {
            0..16 => self.edit(at, &format!("{line} Update: sorted out.")),
            16..22 => self.delete(at),
            22..28 => self.unreact(at),
            28..34 => self.unfurl(at, "https://example.com/"),
            _ => {}
        }
    }

    /// The events as Slack may deliver them.
    fn deliveries(&mut self, ids: &mut impl Iterator<Item = String>) -> Vec<Request> {
        let mut requests = Vec::with_capacity(self.events.len() * 2);
        for event in std::mem::take(&mut self.events) {
            let first = request(Kind::Event, ids, &event);
            match self.random.u32(..100) {
                0..8 => requests.push(Request { kind: Kind::Retry, body: first.body.clone() }),
                8..12 => requests.push(request(Kind::Twin, ids, &event)),
                _ => {}
            }
            requests.push(first);
        }
        for window in requests.chunks_mut(WINDOW) {
            self.random.shuffle(window);
        }
        let secret = |stage: &mut Self, text| slack::message(&stage.tick(), "U0EVE", text, None);
        let direct = secret(self, "This is between the two of us.");
        let private = secret(self, "Nothing of this channel was ever public.");
        let mut poison = slack::message(&self.tick(), "U0EVE", "Where does this belong?", None);
        poison["ts"] = "yesterday".into();
        let forged = slack::posted("C0GENERAL", "channel", &secret(self, "Slack never said this."));
        for (kind, event) in [
            (Kind::Private, slack::posted("D0EVEANA", "im", &direct)),
            (Kind::Private, slack::posted("C0SECRET", "group", &private)),
            (Kind::Poison, slack::posted("general#1", "channel", &poison)),
            (Kind::Forged, forged),
        ] {
            let at = self.random.usize(..=requests.len());
            requests.insert(at, request(kind, ids, &event));
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(seed: u64) -> Workspace {
        Workspace::new(seed, TimestampMs(1_795_178_096_000))
    }

    #[test]
    fn a_week_has_everything_and_is_the_same_for_the_same_seed() {
        let week = workspace(7);
        let count = |kind| week.rest.iter().filter(|request| request.kind == kind).count();
        let events = count(Kind::Event) + week.opening.len();
        assert!((300..1_000).contains(&events), "{events}");
        for kind in [Kind::Retry, Kind::Twin, Kind::Private, Kind::Poison, Kind::Forged] {
            assert!(count(kind) > 0, "{kind:?}");
        }
        let Tally { messages, threads, replies, edited, revisions, deleted, reactions, .. } = week.expected;
        assert!([messages, threads, replies, edited, revisions, deleted, reactions].iter().all(|n| *n > 0));
        let bodies =
            |week: &Workspace| week.rest.iter().map(|request| request.body.clone()).collect::<Vec<_>>();
        assert_eq!(bodies(&week), bodies(&workspace(7)));
    }

    #[test]
    fn the_week_lies_in_the_past() {
        for request in workspace(7).rest {
            let envelope: Value = serde_json::from_str(&request.body).unwrap();
            assert!(envelope["event_time"].as_i64().unwrap() < 1_795_178_096, "{envelope}");
        }
    }
}

//! What the simulated Slack sends: everything that happens in a small workspace, and what should never get in.

use ports::queue::job::MAX_EVENT_BYTES;
use serde_json::{Value, json};
use slack::ids::FileId;

use super::checked_worker::POISON;
use super::world::{FaultKind, World};
use testkit::corpus::{TEAM, channel_id, event, ts, user_id};

/// The first event's clock.
/// No event is from the future: all of them together last less than this time before the beginning.
pub(super) const START_MICROS: i64 = 1_700_000_000_000_000 - 200_000_000;

/// The length of every file: [`event::file`] says so.
const FILE_BYTES: usize = 12;

/// A private channel that was never public.
pub(super) const PRIVATE_CHANNEL: &str = "C0PRIVATE";

/// A channel that an attacker invented.
pub(super) const INVENTED_CHANNEL: &str = "C0NOWHERE";

/// A direct message's channel.
pub(super) const DIRECT_CHANNEL: &str = "D0DIRECT";

/// Bodies of this size are the largest that are taken.
const LARGEST_BYTES: usize = MAX_EVENT_BYTES;

/// A person that an attacker invented.
pub(super) const INVENTED_PERSON: &str = "U0NOBODY";

/// What should become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// 200, and then whatever the rules say.
    Accepted,
    /// 200, and then quarantine.
    Hostile,
    /// 401: its signer did not know the secret.
    Forged,
    /// 400: signed, and no event.
    Malformed,
    /// 413: signed, and too large.
    TooLarge,
}

/// A request of Slack, or of another sender.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// So long after the beginning.
    pub(super) at_ms: u64,
    pub(super) body: String,
    pub(super) fate: Fate,
}

/// A message as it stands while the workload is made.
#[derive(Clone)]
struct WorkloadMessage {
    channel: usize,
    message: Value,
}

struct Maker<'a> {
    world: &'a World,
    /// Every id that a channel has or had; those that it has now are `live`.
    ids: Vec<String>,
    live: Vec<usize>,
    micros: i64,
    made: u64,
    messages: Vec<WorkloadMessage>,
    converted: Vec<bool>,
    files: u64,
    /// One message that is as large as may be is still to come. Each step reads it, so that few runs have one.
    large_to_come: bool,
}

/// How many public channels a run has.
pub(super) fn channels(world: &World) -> usize {
    usize::try_from(world.random().u64(2..5)).unwrap_or(2)
}

/// The first message of each channel: once it is stored, the channel is known to be public.
pub(super) fn openers(channels: usize) -> Vec<String> {
    let opener = |n: usize| {
        let message = event::message(&ts(START_MICROS + i64::try_from(n).unwrap_or(0)), &user_id(0), "first");
        event::envelope(TEAM, &format!("EvOpener{n}"), &event::posted(&channel_id(n), &message))
    };
    (0..channels).map(opener).collect()
}

/// Everything after that, in the order of its time.
pub(super) fn plan(world: &World, channels: usize) -> Vec<Planned> {
    let mut maker = Maker {
        world,
        ids: (0..channels).map(channel_id).collect(),
        live: (0..channels).collect(),
        micros: START_MICROS + 1_000_000,
        made: 0,
        messages: Vec::new(),
        converted: vec![false; channels],
        files: 0,
        large_to_come: world.percent(5),
    };
    let events = 25 + world.below(60);
    // Spread over minutes, or all at once: then batches are large.
    let span_ms = if world.percent(50) { 5_000 + world.below(115_000) } else { 50 + world.below(3_000) };
    let mut planned = Vec::new();
    for number in 0..events {
        let at_ms = number * span_ms / events;
        let (event, fate) = maker.next();
        maker.made += 1;
        let id =
            if fate == Fate::Hostile { format!("EvHostile{number:04}") } else { format!("Ev{number:04}") };
        let body = match fate {
            Fate::Malformed => format!("{{\"type\":\"event_callback\",\"event_id\":\"{id}\",\"event\":"),
            Fate::Forged => event::envelope(TEAM, &format!("EvForged{number:04}"), &event),
            Fate::TooLarge => padded(&event, LARGEST_BYTES + 1, |event| event::envelope(TEAM, &id, event)),
            Fate::Accepted if event["text"] == LARGE => {
                padded(&event, LARGEST_BYTES, |event| event::envelope(TEAM, &id, event))
            }
            Fate::Accepted | Fate::Hostile if event["type"] == "app_rate_limited" => event.to_string(),
            Fate::Accepted | Fate::Hostile => event::envelope(TEAM, &id, &event),
        };
        // Slack delivers some events more than once, and some under two ids.
        if fate == Fate::Accepted && world.percent(12) {
            let again_ms = at_ms + 1 + world.below(400_000);
            planned.push(Planned { at_ms: again_ms, body: body.clone(), fate });
        }
        // The large one is made so for its own id: another body would say something else.
        let has_another_id = event["type"] != "app_rate_limited" && event["text"] != LARGE;
        if fate == Fate::Accepted && world.percent(8) && has_another_id {
            let other = event::envelope(TEAM, &format!("{id}B"), &event);
            planned.push(Planned { at_ms: at_ms + world.below(200_000), body: other, fate });
        }
        planned.push(Planned { at_ms, body, fate });
    }
    planned.sort_by_key(|planned| planned.at_ms);
    planned
}

impl Maker<'_> {
    fn clock(&mut self) -> String {
        self.micros += 1 + i64::try_from(self.world.below(2_000_000)).unwrap_or(0);
        ts(self.micros)
    }

    fn below(&self, end: usize) -> usize {
        usize::try_from(self.world.below(end as u64)).unwrap_or_default()
    }

    fn next(&mut self) -> (Value, Fate) {
        let clock = self.clock();
        let n = self.live[self.below(self.live.len())];
        let channel = self.ids[n].clone();
        let user = user_id(self.below(3));
        let text = format!("text {} of {user}", self.made);
        let any = (!self.messages.is_empty()).then(|| self.below(self.messages.len()));
        let accepted = |event| (event, Fate::Accepted);
        let dice = self.world.below(100);
        match (dice, any) {
            (0..14, Some(at)) => accepted(self.edit(at, &clock, &text)),
            (14..18, Some(at)) => accepted(self.unfurl(at, &clock)),
            (18..23, Some(at)) => accepted(self.delete(at, &clock)),
            (23..25, Some(at)) => accepted(self.bury(at, &clock)),
            (25..37, Some(at)) => accepted(self.react(at, &user, &clock)),
            (37..45, Some(at)) => {
                let WorkloadMessage { channel, message } = self.messages[at].clone();
                let root =
                    message["thread_ts"].as_str().or(message["ts"].as_str()).unwrap_or_default().to_owned();
                accepted(self.post(channel, event::reply(&clock, &root, &user, &text)))
            }
            (45..52, _) => accepted(self.share(n, &clock, &user)),
            (52..56, _) => accepted(event::user_change(&user_id(self.below(3)), &text, &clock)),
            (56..57, _) => {
                accepted(event::emoji_added("party", "https://emoji.slack-edge.com/party.png", &clock))
            }
            (57..65, _) => accepted(self.happen_to_a_channel(n, &clock)),
            (65..67, _) => accepted(json!({
                "type": "app_rate_limited", "team_id": TEAM, "api_app_id": "A0ANNALIST", "token": "not-checked-any-more",
                // The last minute that is over: what was missed in it has happened.
                "minute_rate_limited": (self.micros / 60_000_000 - 1) * 60,
            })),
            (67..71, _) => {
                let private = event::posted(PRIVATE_CHANNEL, &event::message(&clock, &user, &text));
                accepted(event::with(private, [("channel_type", "group".into())]))
            }
            (71..73, _) => accepted(event::reaction_added(PRIVATE_CHANNEL, &clock, &user, "eyes", &clock)),
            (73..76, _) => {
                let direct = event::posted(DIRECT_CHANNEL, &event::message(&clock, &user, &text));
                accepted(event::with(direct, [("channel_type", "im".into())]))
            }
            (76..79, _) => (self.hostile(&channel, &clock, &text), Fate::Hostile),
            (79..81, _) => (event::posted(&channel, &event::message(&clock, &user, &text)), Fate::Malformed),
            (81..83, _) => (event::posted(&channel, &event::message(&clock, &user, "forged")), Fate::Forged),
            (83..84, _) => accepted(
                json!({ "type": "tokens_revoked", "tokens": { "bot": ["U0BOT"] }, "event_ts": clock }),
            ),
            (84..85, _) => accepted(json!({ "type": "something_new", "event_ts": clock, "novelty": false })),
            (85..88, _) if self.world.has(FaultKind::Panicked) => {
                accepted(self.post(n, event::message(&clock, &user, &format!("{text}: {POISON}"))))
            }
            (91..93, _) => accepted(self.go_on(n, &clock)),
            (93..94, _) if self.world.percent(20) => {
                (event::posted(&channel, &event::message(&clock, &user, "too large")), Fate::TooLarge)
            }
            (94..97, _) if self.large_to_come => {
                self.large_to_come = false;
                let large = event::posted(&channel, &event::message(&clock, &user, LARGE));
                accepted(self.audience(n, large))
            }
            (88..91, _) => accepted(self.post(n, event::bot_message(&clock, "B0DEPLOY", "deploy", &text))),
            _ => accepted(self.post(n, event::message(&clock, &user, &text))),
        }
    }

    fn post(&mut self, channel: usize, message: Value) -> Value {
        let posted = event::posted(&self.ids[channel], &message);
        self.messages.push(WorkloadMessage { channel, message });
        self.audience(channel, posted)
    }

    /// A channel that was converted says so.
    fn audience(&self, channel: usize, event: Value) -> Value {
        if self.converted[channel] { event::with(event, [("channel_type", "group".into())]) } else { event }
    }

    fn change(&mut self, at: usize, clock: &str, after: Value) -> Value {
        let WorkloadMessage { channel, message } = self.messages[at].clone();
        let changed = event::changed(&self.ids[channel], &message, &after, clock);
        self.messages[at].message = after;
        self.audience(channel, changed)
    }

    fn edit(&mut self, at: usize, clock: &str, text: &str) -> Value {
        let after = event::edited(&self.messages[at].message, clock, text);
        self.change(at, clock, after)
    }

    fn unfurl(&mut self, at: usize, clock: &str) -> Value {
        let after =
            event::unfurled(&self.messages[at].message, &format!("https://example.com/{}", self.made));
        self.change(at, clock, after)
    }

    fn delete(&mut self, at: usize, clock: &str) -> Value {
        let WorkloadMessage { channel, message } = self.messages.remove(at);
        self.audience(channel, event::deleted(&self.ids[channel], &message, clock))
    }

    fn bury(&mut self, at: usize, clock: &str) -> Value {
        let WorkloadMessage { channel, message } = self.messages.remove(at);
        let buried = event::changed(&self.ids[channel], &message, &event::tombstone(&message), clock);
        self.audience(channel, buried)
    }

    fn react(&self, at: usize, user: &str, clock: &str) -> Value {
        let WorkloadMessage { channel, message } = &self.messages[at];
        let of = message["ts"].as_str().unwrap_or_default();
        let name = ["eyes", "tada"][self.below(2)];
        let react = if self.world.percent(70) { event::reaction_added } else { event::reaction_removed };
        react(&self.ids[*channel], of, user, name, clock)
    }

    fn share(&mut self, channel: usize, clock: &str, user: &str) -> Value {
        // The same file is shared again now and then.
        if self.files == 0 || self.world.percent(75) {
            self.files += 1;
        }
        let kind =
            ["GOOD", "GOOD", "GOOD", "GONE", "EVIL"][usize::try_from(self.files % 5).unwrap_or_default()];
        let id = format!("F0{kind}{}", self.files);
        let file = file_object(&id).unwrap_or_else(|| event::file(&id, user));
        let message = event::with(event::message(clock, user, "see"), [("files", json!([file]))]);
        self.post(channel, message)
    }

    /// A channel gets another id: it answers under that one only from then on. One that was made private keeps its id,
    /// since its events would be kept or not by what comes first; and so does one that has got another already.
    fn go_on(&mut self, n: usize, clock: &str) -> Value {
        let old = self.ids[n].clone();
        let new = later_id(&old);
        if self.converted[n] || is_later_id(&old) {
            return self.happen_to_a_channel(n, clock);
        }
        self.live.retain(|live| *live != n);
        self.live.push(self.ids.len());
        self.ids.push(new.clone());
        self.converted.push(false);
        json!({ "type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new, "event_ts": clock })
    }

    fn happen_to_a_channel(&mut self, n: usize, clock: &str) -> Value {
        let id = self.ids[n].clone();
        let name = format!("name-{}", self.made);
        let simple = |kind: &str| json!({ "type": kind, "channel": id, "event_ts": clock });
        let told = |subtype: &str| {
            json!({
                "type": "message", "subtype": subtype, "channel": id, "channel_type": "channel", "user": "U0",
                "text": name, "topic": name, "purpose": name, "ts": clock, "event_ts": clock,
            })
        };
        let object = json!({ "id": id, "name": name });
        let ways = if is_later_id(&id) { 8 } else { 9 };
        match self.world.below(ways) {
            0 => json!({ "type": "channel_created", "channel": object, "event_ts": clock }),
            1 | 2 => json!({ "type": "channel_rename", "channel": object, "event_ts": clock }),
            3 => simple("channel_archive"),
            4 => simple("channel_unarchive"),
            5 => simple("channel_left"),
            6 => told("channel_topic"),
            7 => told("channel_purpose"),
            _ => {
                self.converted[n] = true;
                event::with(told("channel_convert_to_private"), [("channel_type", "group".into())])
            }
        }
    }

    /// Signed, and not to be kept: ids that would be parts of keys and paths, events without what they need, and claims that only
    /// an attacker with a leaked signing secret would make.
    fn hostile(&self, channel: &str, clock: &str, text: &str) -> Value {
        let invented = |channel: &str, user: &str| event::posted(channel, &event::message(clock, user, text));
        let posted = |channel: &str, clock: &str| {
            json!({ "type": "message", "channel": channel, "channel_type": "channel", "ts": clock, "event_ts": clock,
                "user": "U0", "text": text })
        };
        match self.world.below(10) {
            // What would close a gap of a channel of which nothing may be known.
            9 => json!({ "type": "member_joined_channel", "channel": PRIVATE_CHANNEL, "user": "U0ANNALIST",
                "channel_type": "C", "event_ts": clock }),
            8 => json!({ "type": "channel_id_changed", "old_channel_id": channel_id(0),
                "new_channel_id": PRIVATE_CHANNEL, "event_ts": clock }),
            0 => posted("C0#../../etc", clock),
            1 => posted(channel, "not a time"),
            2 => json!({ "type": "user_change", "user": { "id": "u/../x" }, "event_ts": clock }),
            3 => invented(channel, INVENTED_PERSON),
            4 => invented(INVENTED_CHANNEL, &user_id(0)),
            5 => invented(PRIVATE_CHANNEL, &user_id(0)),
            6 => event::user_change(INVENTED_PERSON, text, clock),
            _ => {
                json!({ "type": "message", "subtype": "message_changed", "channel": channel, "channel_type": "channel",
                "ts": clock, "event_ts": clock })
            }
        }
    }
}

/// The text of the message that is made as large as may be.
const LARGE: &str = "large";

/// An event in a body of exactly `bytes` bytes: its text is as long as that takes.
fn padded(event: &Value, bytes: usize, envelope: impl Fn(&Value) -> String) -> String {
    let shortest = envelope(&event::with(event.clone(), [("text", "".into())])).len();
    envelope(&event::with(event.clone(), [("text", "x".repeat(bytes.saturating_sub(shortest)).into())]))
}

/// The id that a channel goes on under.
pub(super) fn later_id(id: &str) -> String {
    format!("{id}LATER")
}

/// Whether a channel goes on under this id.
pub(super) fn is_later_id(id: &str) -> bool {
    id.ends_with("LATER")
}

/// Every id that the public channels of a run may have.
pub(super) fn public_ids(channels: usize) -> Vec<String> {
    (0..channels).map(channel_id).flat_map(|id| [later_id(&id), id]).collect()
}

/// What Slack says of a file; `None` where it knows none.
pub(super) fn file_object(id: &str) -> Option<Value> {
    FileId::parse(id).ok()?;
    let file = event::file(id, "U0");
    if id.starts_with("F0EVIL") {
        let url = json!(format!("https://files.slack.com.evil.example/{id}"));
        return Some(event::with(file, [("url_private", url.clone()), ("url_private_download", url)]));
    }
    Some(file)
}

/// What a download brings, or its status where it brings nothing.
pub(super) fn download(host: &str, path: &str) -> Result<(&'static str, Vec<u8>), u16> {
    if host != "files.slack.com" {
        return Ok(("image/png", b"a picture".to_vec()));
    }
    let id = path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    if id.starts_with("F0GONE") { Err(404) } else { Ok(("text/plain", content(id))) }
}

/// The bytes of a file.
pub(super) fn content(id: &str) -> Vec<u8> {
    format!("{id:_<FILE_BYTES$}").into_bytes().into_iter().take(FILE_BYTES).collect()
}

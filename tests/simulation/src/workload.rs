//! The requests that the simulated Slack sends: the events of a small workspace, and requests that must be
//! rejected.

mod facts;
mod ids;

use ports::queue::job::MAX_EVENT_BYTES;
use serde_json::{Value, json};

use super::checked_worker::POISON;
use super::hostile;
use super::irregular;
use super::slack_files::file_object;
use super::user_groups;
use super::world::{FaultKind, World};
pub(super) use ids::{is_later_id, later_id, public_ids};
use testkit::corpus::event::EnvelopeShape;
use testkit::corpus::{TEAM, channel_id, event, ts, user_id};

/// The clock of the first event, 200 s before the run begins. All events span less than that, so none is from
/// the future.
pub(super) const START_MICROS: i64 = 1_700_000_000_000_000 - 200_000_000;

/// A private channel that was never public.
pub(super) const PRIVATE_CHANNEL: &str = "C0PRIVATE";

/// A channel that an attacker invented.
pub(super) const INVENTED_CHANNEL: &str = "C0NOWHERE";

/// The channel of direct messages.
pub(super) const DIRECT_CHANNEL: &str = "D0DIRECT";

/// A person that an attacker invented.
pub(super) const INVENTED_PERSON: &str = "U0NOBODY";

/// The expected outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedOutcome {
    /// 200, then stored or dropped by the rules.
    Accepted,
    /// 200, then quarantine.
    Hostile,
    /// 401: signed with a wrong secret.
    Forged,
    /// 400: signed, but not an event.
    Malformed,
    /// 413: signed, but too large.
    TooLarge,
}

/// A request from Slack or from another sender.
#[derive(Debug, Clone)]
pub(super) struct PlannedRequest {
    /// Time since the beginning.
    pub(super) at_ms: u64,
    pub(super) body: String,
    pub(super) fate: ExpectedOutcome,
}

/// The current state of a message while the workload is generated.
#[derive(Clone)]
struct WorkloadMessage {
    channel: usize,
    message: Value,
}

struct Maker<'a> {
    world: &'a World,
    /// Every id that a channel has or had. The indices of the current ids are in `live`.
    ids: Vec<String>,
    live: Vec<usize>,
    micros: i64,
    made: u64,
    messages: Vec<WorkloadMessage>,
    /// The message that was pinned last.
    pinned: Option<(String, String)>,
    converted: Vec<bool>,
    files: u64,
    /// The root of a reply that was sent before its root: the next event.
    late_root: Option<Value>,
    canvases: Vec<String>,
    /// Whether a message of the maximum size is still to come. Few runs have one.
    large_to_come: bool,
}

/// Returns the number of public channels of a run.
pub(super) fn channels(world: &World) -> usize {
    usize::try_from(world.random().u64(2..5)).unwrap_or(2)
}

/// Returns the first message of each channel. Once it is stored, the channel is known to be public.
pub(super) fn openers(channels: usize) -> Vec<String> {
    let opener = |n: usize| {
        let message = event::message(&ts(START_MICROS + i64::try_from(n).unwrap_or(0)), &user_id(0), "first");
        event::envelope(TEAM, &format!("EvOpener{n}"), &event::posted(&channel_id(n), &message))
    };
    (0..channels).map(opener).collect()
}

/// Returns all later requests in the order of their time.
pub(super) fn plan(world: &World, channels: usize) -> Vec<PlannedRequest> {
    let mut maker = Maker {
        world,
        ids: (0..channels).map(channel_id).collect(),
        live: (0..channels).collect(),
        micros: START_MICROS + 1_000_000,
        made: 0,
        messages: Vec::new(),
        pinned: None,
        converted: vec![false; channels],
        files: 0,
        late_root: None,
        canvases: Vec::new(),
        large_to_come: world.chance_percent(5),
    };
    let events = 25 + world.random_below(60);
    // Spread over minutes, or almost all at once, which leads to large batches.
    let span_ms = if world.chance_percent(50) {
        5_000 + world.random_below(115_000)
    } else {
        50 + world.random_below(3_000)
    };
    let mut planned = Vec::new();
    for number in 0..=events {
        if number == events && maker.late_root.is_none() {
            break;
        }
        let at_ms = number * span_ms / events;
        let (event, fate) = maker.next();
        maker.made += 1;
        let drawn = EnvelopeShape::ALL[maker.below(EnvelopeShape::ALL.len())];
        // Without authorizations, nothing shows that it was the app that joined.
        let is_join = event["type"] == "member_joined_channel";
        let shape = if is_join { EnvelopeShape::Regular } else { drawn };
        let envelope = |id: &str, event: &Value| shape.apply(&event::envelope(TEAM, id, event));
        let id = if fate == ExpectedOutcome::Hostile {
            format!("EvHostile{number:04}")
        } else {
            format!("Ev{number:04}")
        };
        let body = match fate {
            ExpectedOutcome::Malformed => {
                format!("{{\"type\":\"event_callback\",\"event_id\":\"{id}\",\"event\":")
            }
            ExpectedOutcome::Forged => envelope(&format!("EvForged{number:04}"), &event),
            ExpectedOutcome::TooLarge => padded(&event, MAX_EVENT_BYTES + 1, |event| envelope(&id, event)),
            ExpectedOutcome::Accepted if event["text"] == LARGE => {
                padded(&event, MAX_EVENT_BYTES, |event| envelope(&id, event))
            }
            ExpectedOutcome::Accepted | ExpectedOutcome::Hostile if event["type"] == "app_rate_limited" => {
                event.to_string()
            }
            ExpectedOutcome::Accepted | ExpectedOutcome::Hostile => envelope(&id, &event),
        };
        // Slack delivers some events more than once, and some under two ids.
        if fate == ExpectedOutcome::Accepted && world.chance_percent(12) {
            let again_ms = at_ms + 1 + world.random_below(400_000);
            planned.push(PlannedRequest { at_ms: again_ms, body: body.clone(), fate });
        }
        // The padding of the large message depends on the event id, so another id would need another text.
        let has_another_id = event["type"] != "app_rate_limited" && event["text"] != LARGE;
        if fate == ExpectedOutcome::Accepted && world.chance_percent(8) && has_another_id {
            let other = envelope(&format!("{id}B"), &event);
            planned.push(PlannedRequest { at_ms: at_ms + world.random_below(200_000), body: other, fate });
        }
        planned.push(PlannedRequest { at_ms, body, fate });
    }
    planned.sort_by_key(|planned| planned.at_ms);
    planned
}

impl Maker<'_> {
    fn clock(&mut self) -> String {
        self.micros += 1 + i64::try_from(self.world.random_below(2_000_000)).unwrap_or(0);
        ts(self.micros)
    }

    fn below(&self, end: usize) -> usize {
        usize::try_from(self.world.random_below(end as u64)).unwrap_or_default()
    }

    fn next(&mut self) -> (Value, ExpectedOutcome) {
        let clock = self.clock();
        let n = self.live[self.below(self.live.len())];
        let channel = self.ids[n].clone();
        let user = user_id(self.below(3));
        let text = format!("text {} of {user}", self.made);
        let any = (!self.messages.is_empty()).then(|| self.below(self.messages.len()));
        let accepted = |event| (event, ExpectedOutcome::Accepted);
        if let Some(root) = self.late_root.take() {
            return accepted(root);
        }
        if self.world.chance_percent(20) {
            let message = irregular::message(self.world, &clock, &user, &text, self.made);
            return accepted(self.post(n, message));
        }
        if self.world.chance_percent(4) {
            self.late_root = Some(self.post(n, event::message(&clock, &user, &text)));
            let reply = event::reply(&self.clock(), &clock, &user, &format!("{text}, early"));
            return accepted(self.post(n, reply));
        }
        let dice = self.world.random_below(100);
        match (dice, any) {
            (0..14, Some(at)) => accepted(self.edit(at, &clock, &text)),
            (14..18, Some(at)) => accepted(self.unfurl(at, &clock)),
            (18..23, Some(at)) => accepted(self.delete(at, &clock)),
            (23..25, Some(at)) => accepted(self.replace_with_tombstone(at, &clock)),
            (25..37, Some(at)) => accepted(self.react(at, &user, &clock)),
            (37..45, Some(at)) => {
                let WorkloadMessage { channel, message } = self.messages[at].clone();
                let root =
                    message["thread_ts"].as_str().or(message["ts"].as_str()).unwrap_or_default().to_owned();
                accepted(self.post(channel, event::reply(&clock, &root, &user, &text)))
            }
            (45..52, _) => accepted(self.share(n, &clock, &user)),
            (52..54, _) => {
                accepted(user_groups::change(self.world, self.made, self.micros / 1_000_000, &clock))
            }
            (54..56, _) => accepted(event::user_change(&user_id(self.below(3)), &text, &clock)),
            (56..57, _) => {
                accepted(event::emoji_added("party", "https://emoji.slack-edge.com/party.png", &clock))
            }
            (57..65, _) => accepted(self.happen_to_a_channel(n, &clock)),
            (65..67, _) => accepted(json!({
                "type": "app_rate_limited", "team_id": TEAM, "api_app_id": "A0ANNALIST", "token": "not-checked-any-more",
                // The last complete minute, so that the events missed in it have happened.
                "minute_rate_limited": (self.micros / 60_000_000 - 1) * 60,
            })),
            (67..71, _) => {
                let private = event::posted(PRIVATE_CHANNEL, &event::message(&clock, &user, &text));
                accepted(event::with_fields(private, [("channel_type", "group".into())]))
            }
            (71..72, _) => accepted(event::reaction_added(PRIVATE_CHANNEL, &clock, &user, "eyes", &clock)),
            (72..73, _) => accepted(event::pin_added(PRIVATE_CHANNEL, &clock, &user, &clock)),
            (73..76, _) => {
                let direct = event::posted(DIRECT_CHANNEL, &event::message(&clock, &user, &text));
                accepted(event::with_fields(direct, [("channel_type", "im".into())]))
            }
            (76..79, _) => (hostile::event(self.world, &channel, &clock, &text), ExpectedOutcome::Hostile),
            (79..81, _) => {
                (event::posted(&channel, &event::message(&clock, &user, &text)), ExpectedOutcome::Malformed)
            }
            (81..83, _) => {
                (event::posted(&channel, &event::message(&clock, &user, "forged")), ExpectedOutcome::Forged)
            }
            (83..84, _) => accepted(self.lose_access(&clock)),
            (97..100, Some(at)) => accepted(self.pin(at, &user, &clock)),
            (84..85, _) => accepted(json!({ "type": "something_new", "event_ts": clock, "novelty": false })),
            (85..88, _) if self.world.is_enabled(FaultKind::Panicked) => {
                accepted(self.post(n, event::message(&clock, &user, &format!("{text}: {POISON}"))))
            }
            (91..93, _) => accepted(self.change_id(n, &clock)),
            (93..94, _) if self.world.chance_percent(20) => (
                event::posted(&channel, &event::message(&clock, &user, "too large")),
                ExpectedOutcome::TooLarge,
            ),
            (94..97, _) if self.large_to_come => {
                self.large_to_come = false;
                let large = event::posted(&channel, &event::message(&clock, &user, LARGE));
                accepted(self.with_audience(n, large))
            }
            (88..91, _) => accepted(self.post(n, event::bot_message(&clock, "B0DEPLOY", "deploy", &text))),
            _ => accepted(self.post(n, event::message(&clock, &user, &text))),
        }
    }

    fn post(&mut self, channel: usize, message: Value) -> Value {
        let posted = event::posted(&self.ids[channel], &message);
        self.messages.push(WorkloadMessage { channel, message });
        self.with_audience(channel, posted)
    }

    /// Marks the event as private if the channel was converted to private.
    fn with_audience(&self, channel: usize, event: Value) -> Value {
        if self.converted[channel] {
            event::with_fields(event, [("channel_type", "group".into())])
        } else {
            event
        }
    }

    fn change(&mut self, at: usize, clock: &str, after: Value) -> Value {
        let WorkloadMessage { channel, message } = self.messages[at].clone();
        let changed = event::changed(&self.ids[channel], &message, &after, clock);
        self.messages[at].message = after;
        self.with_audience(channel, changed)
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
        self.with_audience(channel, event::deleted(&self.ids[channel], &message, clock))
    }

    fn replace_with_tombstone(&mut self, at: usize, clock: &str) -> Value {
        let WorkloadMessage { channel, message } = self.messages.remove(at);
        let buried = event::changed(&self.ids[channel], &message, &event::tombstone(&message), clock);
        self.with_audience(channel, buried)
    }

    fn react(&self, at: usize, user: &str, clock: &str) -> Value {
        let WorkloadMessage { channel, message } = &self.messages[at];
        let ts = message["ts"].as_str().unwrap_or_default();
        let name = ["eyes", "tada"][self.below(2)];
        let react =
            if self.world.chance_percent(70) { event::reaction_added } else { event::reaction_removed };
        react(&self.ids[*channel], ts, user, name, clock)
    }

    fn share(&mut self, channel: usize, clock: &str, user: &str) -> Value {
        // Sometimes the newest canvas is edited.
        if let Some(id) = self.canvases.last().filter(|_| self.world.chance_percent(40)) {
            return json!({ "type": "file_change", "file_id": id, "file": { "id": id }, "event_ts": clock });
        }
        // Sometimes the previous file is shared again.
        if self.files == 0 || self.world.chance_percent(75) {
            self.files += 1;
        }
        let kind =
            ["GOOD", "CANV", "GOOD", "GONE", "EVIL"][usize::try_from(self.files % 5).unwrap_or_default()];
        let id = format!("F0{kind}{}", self.files);
        let file = file_object(&id).unwrap_or_else(|| event::file(&id, user));
        if kind == "CANV" && self.canvases.last() != Some(&id) {
            self.canvases.push(id);
        }
        let message = event::with_fields(event::message(clock, user, "see"), [("files", json!([file]))]);
        self.post(channel, message)
    }

    /// Gives a channel another id, the only one that it has from then on. A private channel keeps its id,
    /// since its events would be stored or not depending on the order of the jobs; so does a channel whose id
    /// has changed before.
    fn change_id(&mut self, n: usize, clock: &str) -> Value {
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
}

/// The text that marks a message to be padded to the maximum size.
const LARGE: &str = "large";

/// Returns a body of exactly `bytes` bytes, by padding the event's text.
fn padded(event: &Value, bytes: usize, envelope: impl Fn(&Value) -> String) -> String {
    let shortest = envelope(&event::with_fields(event.clone(), [("text", "".into())])).len();
    envelope(&event::with_fields(
        event.clone(),
        [("text", "x".repeat(bytes.saturating_sub(shortest)).into())],
    ))
}

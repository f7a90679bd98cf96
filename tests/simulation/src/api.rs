//! A simulated Slack without a socket: the Web API, files and pictures.

use std::collections::BTreeSet;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use slack_api::transport::{ResponseBody, SlackRequest, SlackResponse, Transport};
use testkit::corpus::TEAM;
use testkit::fake_slack::{self, FakeWorkspace, SlackAnswer, SlackState, channel, person, refusal};

use super::bookmarks;
use super::checked_archive::BOT_TOKEN;
use super::mutation::Mutants;
use super::questions::APP;
use super::refusals;
use super::schedule::Steps;
use super::slack_files;
use super::workload::{self, INVENTED_CHANNEL, INVENTED_PERSON, PRIVATE_CHANNEL};
use super::world::{FaultKind, Invariant, Outage, World, lock};

/// Hosts that may receive a token: Slack's API and Slack's file hosts.
const TRUSTED: [&str; 3] = ["slack.com", "files.slack.com", "files-origin.slack.com"];

/// Number of channels that only the directory lists.
pub(super) const LISTED_CHANNELS: usize = 3;

/// Number of people that only the directory lists.
pub(super) const LISTED_PEOPLE: usize = 3;

/// Slack's state, the same for every process.
pub(super) struct SlackTruth {
    state: Mutex<SlackState>,
    /// Each event once: Slack may deliver an event twice, and under two ids.
    applied_events: Mutex<BTreeSet<String>>,
}

impl SlackTruth {
    pub(super) fn new() -> Self {
        let not_joined = |mut channel: Value| {
            channel["is_member"] = false.into();
            channel
        };
        let private = |id: &str| json!({ "id": id, "is_private": true, "is_ext_shared": false });
        let mut state = SlackState::default();
        state.set_page_size(2);
        state.set_workspace(
            BOT_TOKEN,
            FakeWorkspace {
                channels: (0..LISTED_CHANNELS)
                    .map(|n| not_joined(channel(&listed_channel(n), &format!("listed-{n}"))))
                    .collect(),
                unlisted_channels: [PRIVATE_CHANNEL, workload::DIRECT_CHANNEL]
                    .map(private)
                    .map(not_joined)
                    .into(),
                members: (0..LISTED_PEOPLE)
                    .map(|n| person(&listed_person(n), &format!("person-{n}")))
                    .collect(),
                bot_user: APP.to_owned(),
                emoji: json!({ "listed": "https://emoji.slack-edge.com/listed.png" }),
                knows_every_id: true,
                unknown: [INVENTED_PERSON, INVENTED_CHANNEL].map(str::to_owned).into(),
                ..FakeWorkspace::new(TEAM)
            },
        );
        Self { state: Mutex::new(state), applied_events: Mutex::default() }
    }

    /// Applies the event of a request body to Slack's state, unless it was applied before.
    pub(super) fn apply_event(&self, body: &str) {
        let event = serde_json::from_str::<Value>(body).unwrap_or_default()["event"].take();
        let is_new = lock(&self.applied_events).insert(event.to_string());
        if let Some(workspace) = lock(&self.state).workspace(BOT_TOKEN).filter(|_| is_new) {
            workspace.apply_event(&event);
        }
    }

    /// Returns the time of the last edit of a canvas.
    pub(super) fn updated(&self, file: &str) -> u64 {
        let mut state = lock(&self.state);
        let file = state.workspace(BOT_TOKEN).and_then(|workspace| workspace.files.get(file));
        file.and_then(|file| file["updated"].as_u64()).unwrap_or_default()
    }

    /// Returns the app's posts in a channel.
    pub(super) fn posted_in(&self, channel: &str) -> Vec<Value> {
        lock(&self.state)
            .workspace(BOT_TOKEN)
            .map(|workspace| workspace.posted_in(channel))
            .unwrap_or_default()
    }

    /// Returns every event that happened, each as a request body.
    pub(super) fn event_bodies(&self) -> Vec<Value> {
        let event = |text: &String| serde_json::from_str::<Value>(text).unwrap_or_default();
        lock(&self.applied_events).iter().map(|text| json!({ "event": event(text) })).collect()
    }

    /// Returns the bookmarks of a channel; `None` if the app is not in it.
    pub(super) fn bookmarks(&self, channel: &str) -> Option<Vec<Value>> {
        let mut state = lock(&self.state);
        let workspace = state.workspace(BOT_TOKEN)?;
        let is_joined = workspace.channels.iter().any(|row| row["id"] == channel && row["is_member"] == true);
        is_joined.then(|| workspace.bookmarks.get(channel).cloned().unwrap_or_default())
    }

    /// Changes the bookmarks of a channel.
    pub(super) fn change_bookmarks(&self, world: &World, channel: &str) {
        if let Some(workspace) = lock(&self.state).workspace(BOT_TOKEN) {
            bookmarks::change(world, workspace.bookmarks.entry(channel.to_owned()).or_default());
        }
    }

    /// Returns the channel's current id, after any id change.
    pub(super) fn current_id(&self, channel: &str) -> String {
        let moved = lock(&self.state)
            .workspace(BOT_TOKEN)
            .and_then(|workspace| workspace.moved.get(channel).cloned());
        moved.unwrap_or_else(|| channel.to_owned())
    }

    /// Returns the answer of Slack's API without any fault.
    pub(super) fn answer_without_faults(&self, method: &str, parameters: &[(&str, &str)]) -> Value {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        lock(&self.state).answer(method, BOT_TOKEN, parameters.collect(), 0).value()
    }
}

/// Slack as seen by one process of the fleet.
pub(super) struct PlayedSlack {
    pub(super) world: Arc<World>,
    pub(super) steps: Steps,
    pub(super) truth: Arc<SlackTruth>,
    pub(super) mutants: Mutants,
}

impl fmt::Debug for PlayedSlack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlayedSlack")
    }
}

/// Valid JSON in which no field has its type.
const WRONG_TYPES: &[u8] =
    br#"{"ok": true, "channels": 7, "members": {}, "emoji": [], "file": "", "team_id": {}}"#;

#[async_trait]
impl Transport for PlayedSlack {
    async fn send_request(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        self.steps.step().await;
        let host = question.url.host_str().unwrap_or_default().to_owned();
        if question.token.is_some() && !TRUSTED.contains(&host.as_str()) {
            self.world.report_violation(Invariant::Secret, format!("the token goes to {host}"));
        }
        let what = format!("{host}{}", question.url.path());
        let time_limit = question.time_limit;
        let reply = match time_limit {
            Some(time_limit) => tokio::time::timeout(time_limit, self.reply(&question, &host, &what)).await,
            None => Ok(self.reply(&question, &host, &what).await),
        };
        let (answer, cut) = reply.map_err(|_| "no answer in time".to_owned())??;
        self.steps.random_delay().await;
        self.steps.life.pend_if_dead().await;
        let sent_bytes = if cut { answer.body.len() / 2 } else { answer.body.len() };
        let rest = Some(Bytes::copy_from_slice(&answer.body[..sent_bytes]));
        Ok(SlackResponse { body: Box::new(PlayedBody { rest, cut }), ..fake_slack::response(answer) })
    }
}

impl PlayedSlack {
    /// Returns the answer, and whether the connection is cut after half of its body.
    async fn reply(
        &self,
        question: &SlackRequest<'_>,
        host: &str,
        what: &str,
    ) -> Result<(SlackAnswer, bool), String> {
        let (world, who) = (&self.world, self.steps.life.name.as_str());
        tokio::time::sleep(world.random_millis(5..120)).await;
        world.note(who, || format!("asks {what}"));
        if world.outage() == Some(Outage::Silent) {
            return Err("connection refused".to_owned());
        }
        if world.should_inject(FaultKind::Unreachable) {
            world.fault(FaultKind::Unreachable, who, || what.to_owned());
            return match world.random_below(4) {
                0 => pending().await,
                1 => Ok((typed_answer(503, "text/html", "<html>down for maintenance</html>"), false)),
                2 => Ok((refusal("internal_error"), false)),
                _ => Err("connection reset".to_owned()),
            };
        }
        if world.should_inject(FaultKind::RateLimited) {
            let seconds = world.random_below(90) + 1;
            world.fault(FaultKind::RateLimited, who, || format!("{what}: {seconds} s"));
            let limited = typed_answer(429, "text/plain", "");
            let limited = match world.random_below(4) {
                // Slack may leave it out, and a proxy may refuse instead of Slack.
                0 => limited,
                1 => refusal("ratelimited"),
                _ => limited.with_header("retry-after", &seconds.to_string()),
            };
            return Ok((limited, false));
        }
        let method = question.url.path().trim_start_matches("/api/");
        if host == "slack.com" && world.should_inject(FaultKind::Refused) {
            let code = refusals::draw(world, method, question.form.unwrap_or_default());
            world.fault(FaultKind::Refused, who, || format!("{what}: {code}"));
            return Ok((self.mutants.answer(refusal(code), false), false));
        }
        let is_refused = world.outage() == Some(Outage::TokenRefused);
        let in_window = world.is_in_window(FaultKind::TokenRevoked);
        let revoked = (is_refused || in_window) && question.token.is_some();
        if revoked && in_window {
            world.fault(FaultKind::TokenRevoked, who, || what.to_owned());
        }
        let mut answer = match (host, revoked) {
            ("slack.com", true) => refusal("token_revoked"),
            (_, true) => {
                typed_answer(302, "text/html", "").with_header("location", "https://slack.com/?redir=login")
            }
            ("slack.com", false) => self.method(question),
            (_, false) => slack_files::download(host, question.url.path(), |id| self.truth.updated(id))
                .map_or_else(
                    |status| typed_answer(status, "text/plain", ""),
                    |(kind, body)| typed_answer(200, kind, body),
                ),
        };
        let mut cut = false;
        // The client cannot check the length or shape of an answer to a request without a token.
        if question.token.is_some() && world.should_inject(FaultKind::GarbageAnswer) {
            world.fault(FaultKind::GarbageAnswer, who, || what.to_owned());
            match world.random_below(5) {
                0 => cut = true,
                1 => answer.body.truncate(answer.body.len() / 2),
                2 => answer.body = b"\xff\xfe\x00".to_vec(),
                3 => answer.body = b"[1, 2, 3]".to_vec(),
                _ => answer.body = WRONG_TYPES.to_vec(),
            }
        }
        Ok((answer, cut))
    }

    fn method(&self, question: &SlackRequest<'_>) -> SlackAnswer {
        let method = question.url.path().trim_start_matches("/api/");
        let form = question.form.unwrap_or_default().iter();
        let parameters = form.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        // The transport does not see the token; there is only one in the simulation.
        let token = question.token.map_or("", |_| BOT_TOKEN);
        let moves = self.world.should_move_page();
        // The directory's last sync reads whole pages, as a later one would.
        let least = if self.world.has_faults() { 0 } else { 1 };
        let repeated = if moves { least + self.world.random_below(2) } else { 0 };
        if moves {
            self.world.fault(FaultKind::MovedPage, &self.steps.life.name, || method.to_owned());
        }
        let mut state = lock(&self.truth.state);
        let channel = question.form.unwrap_or_default().iter().find(|(name, _)| *name == "channel_id");
        let changed = channel.filter(|_| method == "bookmarks.list" && self.world.has_faults());
        if let Some(workspace) = state.workspace(BOT_TOKEN)
            && let Some((_, channel)) = changed
        {
            bookmarks::change(&self.world, workspace.bookmarks.entry((*channel).to_owned()).or_default());
        }
        state.repeat_entries(usize::try_from(repeated).unwrap_or_default());
        state.skip_entries(moves && repeated == 0);
        let answer = state.answer(method, token, parameters, self.world.true_now().0);
        // The simulation reads Slack's state without faults.
        state.repeat_entries(0);
        state.skip_entries(false);
        let answer = if changed.is_some() { bookmarks::with_odd_entry(&self.world, answer) } else { answer };
        self.mutants.answer(answer, repeated > 0)
    }
}

pub(super) fn typed_answer(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> SlackAnswer {
    SlackAnswer::new(status).with_header("content-type", content_type).with_body(body)
}

/// Returns the id of a listed channel.
pub(super) fn listed_channel(n: usize) -> String {
    format!("C9{n:05}")
}

/// Returns the id of a listed person.
pub(super) fn listed_person(n: usize) -> String {
    format!("U9{n:05}")
}

#[derive(Debug)]
struct PlayedBody {
    rest: Option<Bytes>,
    cut: bool,
}

#[async_trait]
impl ResponseBody for PlayedBody {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        match self.rest.take() {
            Some(piece) if !piece.is_empty() => Ok(Some(piece)),
            Some(_) | None if self.cut => Err("connection reset in the middle".to_owned()),
            Some(_) | None => Ok(None),
        }
    }
}

//! A workspace in which a person asks questions and the app posts replies.

use ports::clock::{Clock, SystemClock};
use serde_json::Value;
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};

const APP: &str = "U0ANNALIST";
pub(crate) const CHANNEL: &str = "C0GENERAL";
pub(crate) const TOKEN: &str = "xoxb-1";
const ASKER: &str = "U0ADA";

/// A workspace of one person and one channel, in which the app may post.
pub(crate) struct AskingWorkspace {
    pub(crate) slack: FakeSlack,
    /// The time of its start, in seconds.
    began_s: i64,
}

impl AskingWorkspace {
    /// A workspace whose clock runs in real time.
    pub(crate) async fn start() -> Self {
        let slack = FakeSlack::start().await;
        let mut ada = person(ASKER, "ada");
        ada["team_id"] = TEAM.into();
        let workspace = FakeWorkspace {
            channels: vec![channel(CHANNEL, "general")],
            members: vec![ada],
            bot_user: APP.to_owned(),
            ..FakeWorkspace::new(TEAM)
        };
        slack.set_workspace(TOKEN, workspace);
        let began_s = SystemClock.now().seconds();
        slack.set_clock(began_s);
        slack.run_clock();
        Self { slack, began_s }
    }

    /// Posts a message that mentions the app; returns its `ts` and its event.
    pub(crate) fn mention(&self, n: u32, text: &str) -> (String, Value) {
        self.message(n, &format!("<@{APP}> {text}"))
    }

    /// Posts a message; returns its `ts` and its event.
    pub(super) fn message(&self, n: u32, text: &str) -> (String, Value) {
        let ts = format!("{}.{n:06}", self.began_s);
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace("&lt;@", "<@");
        let posted = event::posted(CHANNEL, &event::message(&ts, ASKER, &text));
        self.slack.change_workspace(TOKEN, |workspace| workspace.apply_event(&posted));
        (ts, posted)
    }

    /// The messages that the app has posted.
    pub(crate) fn posted(&self) -> Vec<Value> {
        self.slack.change_workspace(TOKEN, |workspace| workspace.posted_in(CHANNEL))
    }
}

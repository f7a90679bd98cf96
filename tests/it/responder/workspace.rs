//! A workspace in which a person asks, and what the app has posted to it.

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
    /// The second at which it begins.
    began_s: i64,
}

impl AskingWorkspace {
    /// One whose time passes as it does.
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
        slack.set(TOKEN, workspace);
        let began_s = SystemClock.now().seconds();
        slack.at(began_s);
        slack.run_clock();
        Self { slack, began_s }
    }

    /// A person mentions the app; the time of the question, and the event that reports it.
    pub(crate) fn mention(&self, n: u32, text: &str) -> (String, Value) {
        self.message(n, &format!("<@{APP}> {text}"))
    }

    /// A person says something; its time, and the event that reports it.
    pub(super) fn message(&self, n: u32, text: &str) -> (String, Value) {
        let ts = format!("{}.{n:06}", self.began_s);
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace("&lt;@", "<@");
        let told = event::posted(CHANNEL, &event::message(&ts, ASKER, &text));
        self.slack.change(TOKEN, |workspace| workspace.happen(&told));
        (ts, told)
    }

    /// What the app has posted.
    pub(crate) fn posted(&self) -> Vec<Value> {
        self.slack.change(TOKEN, |workspace| workspace.posted_in(CHANNEL))
    }
}

//! Whether a job brings something that is erased: the jobs in quarantine, and those that wait on a queue.

use std::collections::BTreeSet;

use ports::archive::ItemKey;
use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope};
use ports::queue::topology::QUEUES;

use super::{Eraser, EraserCounts, EraserError};
use crate::quarantine;
use crate::runtime::updates_of;

/// How much of a job is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobCover {
    /// Nothing.
    Free,
    /// All that it brings: it may go, and nothing is lost.
    All,
    /// Some of it; or it cannot be read, and names what is erased.
    Some,
}

/// How much of what a job brings these facts cover.
#[must_use]
pub fn cover_of(body: &str, facts: &[ErasureFact], covered: &ErasureFacts) -> JobCover {
    // Most jobs name nothing that is erased: they need no second look.
    if !facts.iter().any(|fact| id_of(fact).is_none_or(|id| body.contains(id))) {
        return JobCover::Free;
    }
    match updates_of(body) {
        Some(updates) if !updates.is_empty() => {
            let rows: BTreeSet<&ItemKey> = updates.iter().map(|update| &update.key).collect();
            let erased: BTreeSet<&ItemKey> =
                updates.iter().filter(|update| covered.covers(update)).map(|update| &update.key).collect();
            match erased.len() {
                0 => JobCover::Free,
                erased if erased == rows.len() => JobCover::All,
                _ => JobCover::Some,
            }
        }
        Some(_) => JobCover::Free,
        None if facts.iter().any(|fact| names(body, fact)) => JobCover::Some,
        None => JobCover::Free,
    }
}

/// What a body must hold to be about a fact.
fn id_of(fact: &ErasureFact) -> Option<&str> {
    match &fact.scope {
        ErasureScope::User(user) => Some(user.as_str()),
        ErasureScope::Channel(channel) | ErasureScope::Message(channel, _) => Some(channel.as_str()),
    }
}

/// Whether a body that cannot be read names what a fact is about, as a value of its own.
fn names(body: &str, fact: &ErasureFact) -> bool {
    let has = |text: &str| body.contains(&format!("\"{text}\""));
    match &fact.scope {
        ErasureScope::User(user) => has(user.as_str()),
        ErasureScope::Channel(channel) => has(channel.as_str()),
        ErasureScope::Message(channel, ts) => has(channel.as_str()) && has(ts.as_str()),
    }
}

impl Eraser<'_> {
    /// Removes the jobs in quarantine that bring something erased. Of one that brings something else too, a gap says what is
    /// lost with it.
    pub(super) async fn quarantine(&self) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        for spec in &QUEUES {
            let mut after = None;
            loop {
                let (jobs, next) = quarantine::page(self.archive, spec.name, after).await?;
                counts.rows_read += jobs.len() as u64;
                for job in &jobs {
                    let cover = cover_of(&job.payload, &self.facts, &self.covered);
                    if cover == JobCover::Free {
                        continue;
                    }
                    counts.quarantined += 1;
                    if self.acts() {
                        // If it has changed, its handler failed once more; another erasure finds it.
                        match cover {
                            JobCover::All => quarantine::forget(self.archive, job).await?,
                            JobCover::Some | JobCover::Free => quarantine::discard(self.archive, job).await?,
                        };
                    }
                }
                match next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::job::{encode_event, encode_job};
    use rules::file::row::Share;
    use rules::file::{FileJob, FileObject};
    use serde_json::{Value, json};
    use slack::ids::{ChannelId, TeamId, Ts, UserId};

    use super::*;

    fn facts() -> [ErasureFact; 3] {
        let channel = |id| ChannelId::parse(id).unwrap();
        let (team, until) = (TeamId::parse("T1").unwrap(), Ts::parse("1800000000.000000").unwrap());
        [
            ErasureScope::User(UserId::parse("U1").unwrap()),
            ErasureScope::Channel(channel("C9")),
            ErasureScope::Message(channel("C2"), Ts::parse("1700000000.000100").unwrap()),
        ]
        .map(|scope| ErasureFact { team: team.clone(), scope, until: until.clone() })
    }

    fn cover(body: &str) -> JobCover {
        cover_of(body, &facts(), &facts().into_iter().collect())
    }

    fn event(event: &Value) -> JobCover {
        cover(&encode_event(
            &json!({ "type": "event_callback", "team_id": "T1", "event": event }).to_string(),
        ))
    }

    fn said(channel: &str, user: &str, ts: &str) -> Value {
        json!({ "type": "message", "channel": channel, "channel_type": "channel", "user": user, "text": "hi", "ts": ts })
    }

    #[test]
    fn an_event_goes_if_all_that_it_brings_is_erased() {
        let ts = "1700000000.000100";
        for (told, expected) in [
            (said("C1", "U1", ts), JobCover::All),
            (said("C1", "U1", "1900000000.000100"), JobCover::Free),
            (said("C1", "U2", ts), JobCover::Free),
            (said("C9", "U2", ts), JobCover::All),
            (said("C2", "U2", ts), JobCover::All),
            (said("C2", "U2", "1700000000.000200"), JobCover::Free),
            (json!({ "type": "user_change", "user": { "id": "U1", "name": "ana" } }), JobCover::All),
            (json!({ "type": "user_change", "user": { "id": "U2", "name": "U1" } }), JobCover::Free),
            (
                json!({ "type": "channel_rename", "channel": { "id": "C9", "name": "x" }, "event_ts": ts }),
                JobCover::All,
            ),
            (
                json!({ "type": "reaction_added", "user": "U1", "reaction": "x", "event_ts": ts,
                "item": { "type": "message", "channel": "C1", "ts": ts } }),
                JobCover::Free,
            ),
        ] {
            assert_eq!(event(&told), expected, "{told}");
        }
        let mut told = json!({ "type": "message", "subtype": "message_deleted", "channel": "C1", "channel_type": "channel",
            "ts": "1700000009.000100", "deleted_ts": ts, "previous_message": said("C1", "U1", ts) });
        assert_eq!(event(&told), JobCover::All, "the mark of its deletion goes with it");
        told["previous_message"]["user"] = "U2".into();
        assert_eq!(event(&told), JobCover::Free);
        let mut broadcast = said("C1", "U2", "1700000005.000100");
        broadcast["thread_ts"] = ts.into();
        broadcast["root"] = said("C1", "U1", ts);
        assert_eq!(event(&broadcast), JobCover::Some, "another person's message comes with it");
        let left = json!({ "type": "channel_left", "channel": "C9", "event_ts": ts });
        assert_eq!(event(&left), JobCover::Some, "that the app left is no content of the channel");
    }

    #[test]
    fn a_download_goes_with_its_message_or_its_person() {
        let job = |channel: &str, user: &str| FileJob {
            team: TeamId::parse("T1").unwrap(),
            share: Share {
                channel: ChannelId::parse(channel).unwrap(),
                ts: Ts::parse("1700000000.000100").unwrap(),
            },
            user: UserId::parse(user).ok(),
            object: FileObject::read(&json!({ "id": "F1" })).unwrap(),
            refresh: false,
        };
        let file = |channel, user| cover(&job(channel, user).outgoing().body);
        assert_eq!([file("C1", "U1"), file("C9", "U2"), file("C2", "U2")], [JobCover::All; 3]);
        assert_eq!(file("C1", "U2"), JobCover::Free);
        let image = |user: &str| {
            cover(&encode_job("image", &json!({ "team": "T1", "user": user, "url": "https://a" })))
        };
        assert_eq!([image("U1"), image("U2")], [JobCover::All, JobCover::Free]);
    }

    #[test]
    fn what_cannot_be_read_goes_if_it_names_what_is_erased() {
        for (body, expected) in [
            ("{\"user\":\"U1\"", JobCover::Some),
            ("{\"text\":\"<@U1>\"", JobCover::Free),
            ("\"C2\", \"1700000000.000100\"", JobCover::Some),
            ("\"C2\", \"1700000000.000200\"", JobCover::Free),
            ("", JobCover::Free),
        ] {
            assert_eq!(cover(body), expected, "{body}");
        }
        assert_eq!(event(&json!({ "type": "news_from_slack", "who": "U1" })), JobCover::Some);
        let refused = json!({ "team_id": "T1", "channel": "C9", "from": "5.000000", "to": "6.000000" });
        assert_eq!(cover(&encode_job("refused", &refused)), JobCover::Free, "it has no content");
    }
}

//! Which workspace an export is from: what its channels, its messages and its people say.
//!
//! A channel may name the workspace for which it was listed, and a message the workspace of its author.
//! People of other workspaces are in an export too: guests of an Enterprise organisation have the team id of
//! their home, and so have strangers in shared channels. So only the workspace's own people and their
//! messages count, and if the sources disagree, the user decides.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use slack::envelope::{object_or_default, text_or_none};
use slack::ids::TeamId;

use super::elements::{ArrayElement, Elements};
use super::layout::EntryIndex;
use super::source::ExportEntries;

/// Days of a workspace whose messages are asked, spread over all of them. An export of ten million messages
/// is not read twice for a question that some thousand messages answer.
const SAMPLED_DAYS: usize = 64;

/// Bytes of a day that are read for it: some hundred messages.
const SAMPLED_BYTES: u64 = 256 * 1024;

/// Days of an organisation-wide channel that are searched for its first message that names a workspace: its
/// first days may have only messages of apps.
const FIRST_DAYS: usize = 8;

/// Workspaces in an error, which is one line.
const MAX_CANDIDATES: usize = 5;

/// How often each workspace was named.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceVotes(BTreeMap<TeamId, u64>);

impl WorkspaceVotes {
    /// Counts an id. An organisation (`E…`) is not a workspace.
    pub(crate) fn add(&mut self, id: Option<&str>) -> Option<TeamId> {
        let team = workspace_id(id?)?;
        *self.0.entry(team.clone()).or_default() += 1;
        Some(team)
    }

    /// The workspace that was named more often than all others together.
    fn majority(&self) -> Option<&TeamId> {
        let all: u64 = self.0.values().sum();
        self.0.iter().find(|(_, count)| **count * 2 > all).map(|(team, _)| team)
    }
}

fn workspace_id(id: &str) -> Option<TeamId> {
    TeamId::parse(id).ok().filter(|team| !team.as_str().starts_with('E'))
}

/// What the parts of an export say about its workspace.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceEvidence {
    /// `context_team_id` of its channels.
    pub(crate) channels: WorkspaceVotes,
    /// `team` of a sample of its members' messages.
    pub(crate) messages: WorkspaceVotes,
    /// `team_id` of its members.
    pub(crate) people: WorkspaceVotes,
}

impl WorkspaceEvidence {
    /// The workspace: the majority of the first of channels, messages and people that say anything, unless
    /// the majority of the next one is another.
    pub(crate) fn workspace(&self) -> Option<&TeamId> {
        let sources = [&self.channels, &self.messages, &self.people];
        let mut sources = sources.into_iter().skip_while(|votes| votes.0.is_empty());
        let stated = sources.next()?.majority()?;
        let agrees = sources.next().and_then(WorkspaceVotes::majority).is_none_or(|next| next == stated);
        agrees.then_some(stated)
    }

    /// The workspaces that were named, with what named each; empty if no source names one.
    pub(crate) fn candidates(&self) -> String {
        let mut named: BTreeMap<&TeamId, [u64; 3]> = BTreeMap::new();
        for (source, votes) in [&self.channels, &self.messages, &self.people].into_iter().enumerate() {
            for (team, count) in &votes.0 {
                named.entry(team).or_default()[source] = *count;
            }
        }
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
        let more = named.len().saturating_sub(MAX_CANDIDATES);
        let candidate = |(team, [channels, messages, people]): &(&TeamId, [u64; 3])| {
            let counts = [(*people, "people"), (*messages, "messages"), (*channels, "channels")];
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
            format!("{team}: {}", counts.join(", "))
        };
        let mut listed: Vec<String> = named.iter().take(MAX_CANDIDATES).map(candidate).collect();
        listed.extend((more > 0).then(|| format!("and {more} more")));
        listed.join("; ")
    }
}

#[derive(Default, Deserialize)]
struct SampledMessage<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team: Option<Cow<'a, str>>,
}

/// Counts the workspaces that messages name, in a sample of these days. `counts` decides by the author.
pub(crate) fn sample_days(
    source: &mut dyn ExportEntries,
    days: &[EntryIndex],
    counts: &dyn Fn(&str) -> bool,
    votes: &mut WorkspaceVotes,
) {
    let step = days.len().div_ceil(SAMPLED_DAYS).max(1);
    for day in days.iter().step_by(step) {
        for_each_team(source, *day, counts, &mut |team| {
            votes.add(Some(team));
            true
        });
    }
}

/// The workspace that the first message in these days of a channel names. `counts` decides by the author.
pub(crate) fn first_named(
    source: &mut dyn ExportEntries,
    days: &[EntryIndex],
    counts: &dyn Fn(&str) -> bool,
) -> Option<TeamId> {
    let mut first = None;
    for day in days.iter().take(FIRST_DAYS) {
        for_each_team(source, *day, counts, &mut |team| {
            first = workspace_id(team);
            first.is_none()
        });
        if first.is_some() {
            break;
        }
    }
    first
}

/// Calls `handle` with the `team` of each message at the start of a day, until it returns false. What cannot
/// be read is reported when the day is imported.
fn for_each_team(
    source: &mut dyn ExportEntries,
    day: EntryIndex,
    counts: &dyn Fn(&str) -> bool,
    handle: &mut dyn FnMut(&str) -> bool,
) {
    let Ok(bytes) = source.open(day) else { return };
    let mut elements = Elements::new(bytes.take(SAMPLED_BYTES));
    while let Ok(Some(element)) = elements.next() {
        let ArrayElement::Json(raw) = element else { continue };
        let SampledMessage { user, team } = object_or_default(raw);
        if let (Some(user), Some(team)) = (user, team)
            && counts(&user)
            && !handle(&team)
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fixture::Entries;
    use super::*;

    fn votes(counts: &[(&str, u64)]) -> WorkspaceVotes {
        WorkspaceVotes(counts.iter().map(|(team, count)| (TeamId::parse(team).unwrap(), *count)).collect())
    }

    #[test]
    fn channels_are_asked_first_then_messages_then_people_and_a_contradiction_is_undecided() {
        type Counts = &'static [(&'static str, u64)];
        let cases: [(Counts, Counts, Counts, Option<&str>); 11] = [
            (&[], &[], &[("T1", 2), ("T2", 1)], Some("T1")),
            (&[], &[("T1", 1)], &[], Some("T1")),
            (&[("T1", 1)], &[], &[], Some("T1")),
            // In an organisation, people have the id of their home workspace.
            (&[("T1", 3)], &[("T1", 5), ("T2", 4)], &[("T2", 9)], Some("T1")),
            (&[("T1", 3)], &[("T1", 2), ("T2", 2)], &[], Some("T1")),
            (&[("T1", 3)], &[], &[("T2", 9)], Some("T1")),
            // Ties and contradictions.
            (&[], &[], &[("T1", 1), ("T2", 1)], None),
            (&[], &[("T1", 1), ("T2", 1)], &[("T1", 9)], None),
            (&[], &[("T1", 2)], &[("T2", 9)], None),
            (&[("T1", 1)], &[("T2", 1)], &[], None),
            (&[], &[], &[], None),
        ];
        for (channels, messages, people, expected) in cases {
            let evidence = WorkspaceEvidence {
                channels: votes(channels),
                messages: votes(messages),
                people: votes(people),
            };
            assert_eq!(evidence.workspace().map(TeamId::as_str), expected, "{evidence:?}");
        }
    }

    #[test]
    fn the_candidates_are_one_short_line() {
        let mut evidence = WorkspaceEvidence {
            messages: votes(&[("T1", 10), ("T2", 10)]),
            people: votes(&[("T1", 3)]),
            ..WorkspaceEvidence::default()
        };
        assert_eq!(evidence.candidates(), "T1: 3 people, 10 messages; T2: 10 messages");
        for number in 0..1_000 {
            evidence.people.add(Some(&format!("T9{number}")));
        }
        for odd in [None, Some("E1"), Some("t#"), Some("")] {
            assert_eq!(evidence.people.add(odd), None);
        }
        assert!(evidence.candidates().ends_with("; and 997 more"), "{}", evidence.candidates());
        assert_eq!(WorkspaceEvidence::default().candidates(), "");
    }

    #[test]
    fn a_bounded_number_of_days_and_bytes_is_sampled() {
        let long = json!({ "user": "U1", "team": "T2", "text": "x".repeat(SAMPLED_BYTES as usize) });
        let message = json!({ "user": "U1", "team": "T1" });
        let stranger = json!({ "user": "U9", "team": "T9" });
        let odd =
            [json!(null), json!(7), json!({ "user": 7, "team": "T9" }), json!({ "user": "U1", "team": [] })];
        let day = Value::from([&odd[..], &[stranger, message.clone(), long, message]].concat()).to_string();
        let names: Vec<String> = (0..1_000).map(|number| format!("general/{number}")).collect();
        let broken = [("broken", "{".to_owned()), ("empty", String::new())];
        let days = names.iter().map(|name| (name.as_str(), day.clone()));
        let mut source = Entries::new(broken.into_iter().chain(days));
        let all: Vec<EntryIndex> = (0..source.entries().len()).collect();
        let counts = |user: &str| user == "U1";
        let mut sampled = WorkspaceVotes::default();
        sample_days(&mut source, &all, &counts, &mut sampled);
        let count = sampled.0[&TeamId::parse("T1").unwrap()];
        assert!((50..=SAMPLED_DAYS as u64).contains(&count), "{sampled:?}");
        assert_eq!(sampled.0.len(), 1, "{sampled:?}");
        assert_eq!(first_named(&mut source, &all, &counts).unwrap().as_str(), "T1");
        assert_eq!(first_named(&mut source, &all[..2], &counts), None);
    }
}

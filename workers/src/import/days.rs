//! Reads the days of an export on its own thread, alongside the splitting and the writing: each message
//! becomes its changes, which are sent in batches.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use rules::Malformed;
use rules::author::{AuthorFacts, NewestUpdates};
use rules::history::{self, ExportedElement, HistoryMessage};
use serde_json::value::RawValue;
use slack::ids::{SLACKBOT, TeamId, Ts, UserId};
use tokio::sync::mpsc::Sender;

use super::problem::{PathProblems, Problem, ProblemKind};
use super::source::ExportEntries;
use super::splitting::{ChannelDays, DayChunk, DayEnd, split};

/// Messages in a batch: the contents of one commit.
const BATCH: usize = 512;

/// A batch of long messages is sent sooner, so that a few batches have a bounded size.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Chunks that are split ahead.
const SPLIT_AHEAD: usize = 8;

/// Maximum number of messages of one channel that are remembered to find duplicates: 64 MiB of them.
const MAX_REMEMBERED: usize = 4_000_000;

/// Messages to be stored.
#[derive(Debug)]
pub(crate) struct MessageBatch {
    pub(crate) messages: Vec<HistoryMessage>,
    /// The channel of each message, by its index among all channels that are read, and the name of its day.
    pub(crate) origins: Vec<(usize, Arc<str>)>,
}

/// An item that the reading thread sends.
#[derive(Debug)]
pub(crate) enum DayDelivery {
    Batch(MessageBatch),
    /// A problem was found.
    Problem(Problem),
    /// An entry of this size in the export was read.
    Read(u64),
}

/// The totals of a complete reading.
#[derive(Debug, Default)]
pub(crate) struct DaysRead {
    /// The channels with missing messages, by index.
    pub(crate) incomplete: BTreeSet<usize>,
    /// The times of the oldest and the newest message.
    pub(crate) span: Option<(Ts, Ts)>,
    /// Authors that the export does not list.
    pub(crate) unlisted_authors: BTreeSet<(TeamId, UserId)>,
    /// What messages say about these authors, about the bots of apps, and about their workspace.
    pub(crate) other_updates: NewestUpdates,
}

/// Reads all days. It ends early if the receiver is dropped.
pub(crate) fn read(
    source: &mut dyn ExportEntries,
    channels: &[ChannelDays],
    latest_micros: i64,
    sender: &Sender<DayDelivery>,
) -> DaysRead {
    let (chunks, received) = sync_channel(SPLIT_AHEAD);
    thread::scope(|scope| {
        scope.spawn(move || split(source, channels, &chunks));
        let (batch, read) = (DayBatch::default(), DaysRead::default());
        let mut reader = DaysReader { latest_micros, sender, batch, read };
        // `None` means that the receiver was dropped.
        let _: Option<()> = reader.read_all(received, channels);
        reader.read
    })
}

#[derive(Default)]
struct DayBatch {
    messages: Vec<HistoryMessage>,
    origins: Vec<(usize, Arc<str>)>,
    bytes: usize,
}

struct DaysReader<'s> {
    latest_micros: i64,
    sender: &'s Sender<DayDelivery>,
    batch: DayBatch,
    read: DaysRead,
}

/// A day that is being read.
struct Day<'d> {
    channel: &'d ChannelDays,
    channel_index: usize,
    name: Arc<str>,
    problems: PathProblems,
}

impl DaysReader<'_> {
    fn read_all(&mut self, chunks: Receiver<DayChunk>, channels: &[ChannelDays]) -> Option<()> {
        let (mut channel_index, mut seen) = (0, HashSet::new());
        let mut open: Option<Day<'_>> = None;
        for chunk in chunks {
            if chunk.channel_index != channel_index || seen.len() > MAX_REMEMBERED {
                channel_index = chunk.channel_index;
                seen.clear();
            }
            let DayChunk { name, first, elements, end, .. } = chunk;
            let mut day = open.take().unwrap_or_else(|| {
                let problems = PathProblems::new(&name);
                Day { channel: &channels[channel_index], channel_index, name, problems }
            });
            for (number, element) in (first..).zip(elements) {
                match element {
                    Ok(raw) => self.message(&mut day, number, &raw, &mut seen)?,
                    Err(why) => {
                        let detail = format!("message {number}: {why}");
                        self.problem(&mut day, ProblemKind::BrokenMessage, detail)?;
                    }
                }
            }
            match end {
                Some(end) => self.end(day, &end)?,
                None => open = Some(day),
            }
        }
        self.send_batch()
    }

    fn end(&mut self, mut day: Day<'_>, end: &DayEnd) -> Option<()> {
        if let Some(broken) = &end.broken {
            self.problem(&mut day, broken.kind(ProblemKind::BrokenDay), broken.to_string())?;
        }
        if day.problems.has_loss() {
            self.read.incomplete.insert(day.channel_index);
        }
        day.problems.rest().try_for_each(|problem| self.send(DayDelivery::Problem(problem)))?;
        self.send(DayDelivery::Read(end.packed_bytes))
    }

    fn message(
        &mut self,
        day: &mut Day<'_>,
        number: u64,
        raw: &RawValue,
        seen: &mut HashSet<i64>,
    ) -> Option<()> {
        let ChannelDays { team, channel, .. } = day.channel;
        match history::exported(team, channel, raw) {
            Ok(ExportedElement::Message(message)) => {
                if !self.is_past(day, number, &message)? {
                    return Some(());
                }
                if !seen.insert(message.ts.micros()) {
                    self.problem(day, ProblemKind::Duplicate, format!("{} occurs twice", message.ts))?;
                }
                self.note_time(&message.ts);
                self.add_message(day, *message, raw.get().len())
            }
            // A log entry may refer to a message from before the export's start, which must not extend the
            // export's time span.
            Ok(ExportedElement::Log(versions)) => versions.into_iter().try_for_each(|version| {
                if self.is_past(day, number, &version)? {
                    self.add_message(day, version, raw.get().len())?;
                }
                Some(())
            }),
            Err(malformed) => {
                let is_time = matches!(malformed, Malformed::Id(_));
                let kind = if is_time { ProblemKind::BadTime } else { ProblemKind::BrokenMessage };
                self.problem(day, kind, format!("message {number}: {malformed}"))
            }
        }
    }

    /// Whether no time in a message is later than now.
    fn is_past(&mut self, day: &mut Day<'_>, number: u64, message: &HistoryMessage) -> Option<bool> {
        let times = [Some(message.newest_time()), message.thread_ts.as_ref()];
        let Some(future) = times.into_iter().flatten().find(|ts| ts.micros() > self.latest_micros) else {
            return Some(true);
        };
        let detail = format!("message {number}: {future} is more than a day ahead of this machine's clock");
        self.problem(day, ProblemKind::BadTime, detail)?;
        Some(false)
    }

    fn add_message(&mut self, day: &mut Day<'_>, mut message: HistoryMessage, bytes: usize) -> Option<()> {
        let ChannelDays { team, people, .. } = day.channel;
        let unlisted =
            message.author.clone().filter(|author| author.as_str() != SLACKBOT && !people.contains(author));
        // The list says more about the others than their messages do.
        if unlisted.is_some() || message.author_facts.has_bot() {
            message.author_updates(team).into_iter().for_each(|update| self.read.other_updates.add(update));
        }
        message.workspace_update(team).into_iter().for_each(|update| self.read.other_updates.add(update));
        message.author_facts = AuthorFacts::default();
        if let Some(author) = unlisted {
            let detail = format!("{author} wrote {} and is not among the people", message.ts);
            if self.read.unlisted_authors.insert((team.clone(), author)) {
                self.problem(day, ProblemKind::UnknownUser, detail)?;
            }
        }
        self.batch.bytes += bytes;
        self.batch.messages.push(message);
        self.batch.origins.push((day.channel_index, Arc::clone(&day.name)));
        if self.batch.messages.len() >= BATCH || self.batch.bytes >= BATCH_BYTES {
            self.send_batch()?;
        }
        Some(())
    }

    fn note_time(&mut self, ts: &Ts) {
        match &mut self.read.span {
            Some((oldest, newest)) => {
                if *ts < *oldest {
                    *oldest = ts.clone();
                } else if *ts > *newest {
                    *newest = ts.clone();
                }
            }
            unset => *unset = Some((ts.clone(), ts.clone())),
        }
    }

    fn problem(&mut self, day: &mut Day<'_>, kind: ProblemKind, detail: String) -> Option<()> {
        match day.problems.add(kind, detail) {
            Some(problem) => self.send(DayDelivery::Problem(problem)),
            None => Some(()),
        }
    }

    fn send_batch(&mut self) -> Option<()> {
        let DayBatch { messages, origins, .. } = std::mem::take(&mut self.batch);
        if messages.is_empty() {
            return Some(());
        }
        self.send(DayDelivery::Batch(MessageBatch { messages, origins }))
    }

    fn send(&self, delivered: DayDelivery) -> Option<()> {
        self.sender.blocking_send(delivered).ok()
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::super::fixture::Entries;
    use super::*;

    const LATEST_MICROS: i64 = 1_700_000_000_000_000;

    fn delivered(days: &[(&str, &str)], people: &[&str]) -> (Vec<DayDelivery>, DaysRead) {
        let mut source = Entries::new(days.iter().map(|(name, text)| (*name, (*text).to_owned())));
        let channel = ChannelDays {
            team: TeamId::parse("T1").unwrap(),
            channel: ChannelId::parse("C1").unwrap(),
            days: (0..days.len()).collect(),
            people: Arc::new(people.iter().map(|user| UserId::parse(user).unwrap()).collect()),
        };
        let (sender, mut receiver) = tokio::sync::mpsc::channel(10_000);
        let read = read(&mut source, &[channel], LATEST_MICROS, &sender);
        drop(sender);
        let mut delivered = Vec::new();
        while let Ok(one) = receiver.try_recv() {
            delivered.push(one);
        }
        (delivered, read)
    }

    fn times(delivered: &[DayDelivery]) -> Vec<String> {
        let batches = delivered.iter().filter_map(|delivered| match delivered {
            DayDelivery::Batch(batch) => Some(batch),
            DayDelivery::Problem(_) | DayDelivery::Read(_) => None,
        });
        batches.flat_map(|batch| &batch.messages).map(|message| message.ts.to_string()).collect()
    }

    fn kinds(delivered: &[DayDelivery]) -> Vec<ProblemKind> {
        let problems = delivered.iter().filter_map(|delivered| match delivered {
            DayDelivery::Problem(problem) => Some(problem.kind),
            DayDelivery::Batch(_) | DayDelivery::Read(_) => None,
        });
        problems.collect()
    }

    #[test]
    fn a_broken_day_is_read_up_to_the_break_and_the_next_day_whole() {
        let (delivered, read) = delivered(
            &[
                (
                    "general/2023-01-01.json",
                    r#"[{"ts":"1600000001.000000"},{"ts":"1600000002.000000"},{"ts":"#,
                ),
                ("general/2023-01-02.json", r#"[{"ts":"1600000003.000000"}]"#),
            ],
            &[],
        );
        assert_eq!(times(&delivered), ["1600000001.000000", "1600000002.000000", "1600000003.000000"]);
        assert_eq!(kinds(&delivered), [ProblemKind::BrokenDay]);
        assert_eq!(read.incomplete, BTreeSet::from([0]));
        let span = read.span.map(|(oldest, newest)| (oldest.to_string(), newest.to_string()));
        assert_eq!(span, Some(("1600000001.000000".to_owned(), "1600000003.000000".to_owned())));
    }

    #[test]
    fn each_malformed_message_is_a_problem_and_no_other_is_lost() {
        let day = r#"[null, {"text":"no time"}, {"ts":"soon"}, {"ts":"1700000001.000000"}, {"ts":"1600000001.000000"},
            {"ts":"1600000005.000000","edited":{"ts":"1700000001.000000"}}, {"ts":"1600000001.000000"}, {"ts":1600000002.5}, {"ts":2.5}, nonsense,
            {"ts":"1600000006.000000","user":"U9"}, {"ts":"1600000007.000000","user":"U9"}, {"ts":"1600000008.000000","user":"U1"},
            {"ts":"1600000009.000000","user":"USLACKBOT","text":"hi"}]"#;
        let (delivered, read) = delivered(&[("general/2023-01-01.json", day)], &["U1"]);
        assert_eq!(
            times(&delivered),
            [
                "1600000001.000000",
                "1600000001.000000",
                "1600000002.500000",
                "1600000006.000000",
                "1600000007.000000",
                "1600000008.000000",
                "1600000009.000000"
            ]
        );
        use ProblemKind::{BadTime, BrokenMessage, Duplicate, UnknownUser};
        let expected = [
            BrokenMessage,
            BrokenMessage,
            BadTime,
            BadTime,
            BadTime,
            Duplicate,
            BadTime,
            BrokenMessage,
            UnknownUser,
        ];
        assert_eq!(kinds(&delivered), expected);
        assert_eq!(read.unlisted_authors.len(), 1);
    }

    #[test]
    fn a_log_entry_adds_versions_without_a_duplicate_or_an_earlier_time() {
        let day = r#"[{"ts":"1600000005.000000","text":"new","edited":{"ts":"1600000006.000000"}},
            {"ts":"1600000006.000100","subtype":"message_changed","message":{"ts":"1600000005.000000","text":"new","edited":{"ts":"1600000006.000000"}},
                "original":{"ts":"1600000005.000000","text":"old"}},
            {"ts":"1600000007.000100","subtype":"message_deleted","deleted_ts":"1600000002.000000","previous_message":{"ts":"1600000002.000000","text":"gone"}},
            {"ts":"1600000008.000100","subtype":"message_changed"},
            {"ts":"1600000008.000200","subtype":"message_changed","message":{"ts":"1700000001.000000","text":"later"}},
            {"ts":"1600000009.000000","text":"bye"}]"#;
        let (delivered, read) = delivered(&[("general/2023-01-01.json", day)], &[]);
        assert_eq!(
            times(&delivered),
            [
                "1600000005.000000",
                "1600000005.000000",
                "1600000005.000000",
                "1600000002.000000",
                "1600000002.000000",
                "1600000009.000000"
            ]
        );
        assert_eq!(kinds(&delivered), [ProblemKind::BrokenMessage, ProblemKind::BadTime]);
        let span = read.span.map(|(oldest, newest)| (oldest.to_string(), newest.to_string()));
        assert_eq!(span, Some(("1600000005.000000".to_owned(), "1600000009.000000".to_owned())));
    }

    #[test]
    fn batches_are_bounded_by_number_and_by_size() {
        let message =
            |n: usize, text: &str| format!(r#"{{"ts":"{}.000000","text":"{text}"}}"#, 1_600_000_000 + n);
        let day = |messages: Vec<String>| format!("[{}]", messages.join(","));
        let small = day((1..=1000).map(|n| message(n, "")).collect());
        let large = day((2001..=2005).map(|n| message(n, &"x".repeat(BATCH_BYTES))).collect());
        let (delivered, _) = delivered(&[("a/2023-01-01.json", &small), ("a/2023-01-02.json", &large)], &[]);
        let sizes: Vec<usize> = delivered
            .iter()
            .filter_map(|delivered| match delivered {
                DayDelivery::Batch(batch) => Some(batch.messages.len()),
                DayDelivery::Problem(_) | DayDelivery::Read(_) => None,
            })
            .collect();
        assert_eq!(sizes, [512, 489, 1, 1, 1, 1]);
    }
}

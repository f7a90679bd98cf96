//! The tables of a report: channels, people, and top messages.

use std::collections::BTreeMap;

use ports::archive::{ArchiveError, Item};
use rules::figures::day::TOP;
use rules::figures::message::CountedMessage;
use rules::figures::person::AuthorKind;
use rules::message::author;
use slack::ids::{ChannelId, Ts};

use super::counting::AboutPerson;
use super::inputs::{ReplyCandidates, ReportInputs};
use super::message;
use super::report::{FiguresReport, PersonRow, RankedChannel, TopMessage};
use super::summary::{ChannelTotal, PeriodSummary};
use crate::concurrent::read_all;
use crate::joined::JoinedChannel;
use crate::permalink;

/// Maximum number of messages whose replies are counted to find those with the most: the messages with the
/// most replies within the period. Each needs a query, and another one each time a stored report is checked.
const MAX_ROOTS: usize = 100;

impl ReportInputs {
    pub(super) fn person_name(&self, id: &str) -> Option<String> {
        self.people.get(id)?.name.clone()
    }

    fn channel_name(&self, channel: &ChannelId) -> Option<String> {
        self.names.name(channel).map(str::to_owned)
    }

    pub(super) fn ranked_channels(
        &self,
        summary: &PeriodSummary,
        before: &PeriodSummary,
    ) -> Vec<RankedChannel> {
        let mut above = 0;
        let whole = summary.total.messages;
        let messages_before = |channel| before.channels.get(channel).map_or(0, |total| total.total.messages);
        let rows =
            summary.channels_used().into_iter().enumerate().map(|(index, (channel, channel_total))| {
                let ChannelTotal { total, posters } = channel_total;
                above += total.messages;
                RankedChannel {
                    rank: index + 1,
                    channel: channel.clone(),
                    name: self.channel_name(channel),
                    messages: total.messages,
                    previous: messages_before(channel),
                    words: total.words,
                    posters: *posters,
                    share: share(total.messages, whole),
                    cumulative_share: share(above, whole),
                }
            });
        rows.collect()
    }

    /// Returns the posters; in the report of a person only that person, with their rank among everyone.
    pub(super) fn person_rows(
        &self,
        summary: &PeriodSummary,
        before: &PeriodSummary,
        whole: u64,
        about: &AboutPerson,
    ) -> Vec<PersonRow> {
        let mut above = 0;
        let rows = summary.posters().into_iter().enumerate().map(|(index, (id, person))| {
            let ahead = about.messages.iter().filter(|(other, messages)| {
                **messages > person.messages || (**messages == person.messages && other.as_str() < id)
            });
            let (ahead, messages_ahead) =
                ahead.fold((0, 0), |(people, sum), (_, messages)| (people + 1, sum + messages));
            above += person.messages;
            PersonRow {
                rank: index + 1 + ahead,
                user: id.to_owned(),
                name: self.person_name(id),
                kind: self
                    .people
                    .get(id)
                    .map_or(AuthorKind::Stranger, |person| person.kind)
                    .as_str()
                    .to_owned(),
                messages: person.messages,
                previous: before.people.get(id).map_or(0, |person| person.messages),
                words: person.words,
                replies: person.replies,
                reactions_received: person.reactions_received,
                reactions_given: person.reactions_given,
                mentions_received: person.mentions_received,
                replies_received: person.replies_received,
                share: share(person.messages, whole),
                cumulative_share: share(above + messages_ahead, whole),
            }
        });
        rows.collect()
    }

    pub(super) async fn most_reacted(
        &self,
        channels: &[JoinedChannel<'_>],
        summary: &PeriodSummary,
    ) -> Result<Vec<TopMessage>, ArchiveError> {
        let mut most_reacted = Vec::new();
        for (id, ts, count) in &summary.most_reacted {
            let channel = channels.iter().find(|channel| channel.current_location().channel == *id);
            let row = match channel {
                Some(channel) => channel.message(ts).await?,
                None => None,
            };
            most_reacted.push(self.top(id, ts, row.as_ref(), *count));
        }
        Ok(most_reacted)
    }

    /// Returns messages that started threads in the period, with the number of all their replies in the
    /// archive. `roots` has the roots of each channel, with their replies in the period.
    pub(super) async fn candidates(
        &self,
        channels: &[JoinedChannel<'_>],
        roots: &[BTreeMap<Ts, u64>],
    ) -> Result<ReplyCandidates, ArchiveError> {
        let roots = channels.iter().zip(roots);
        let mut roots: Vec<(u64, &JoinedChannel<'_>, &Ts)> = roots
            .flat_map(|(channel, roots)| roots.iter().map(move |(ts, replies)| (*replies, channel, ts)))
            .collect();
        roots.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.2.cmp(other.2)));
        roots.truncate(MAX_ROOTS);
        let reads: Vec<_> =
            roots.iter().map(|(_, channel, root_ts)| message::reply_count(channel, root_ts)).collect();
        let counts = read_all(reads).await?;
        let candidates = roots.iter().zip(counts);
        let mut candidates: Vec<(ChannelId, Ts, u64)> = candidates
            .map(|((_, channel, root_ts), replies)| {
                (channel.current_location().channel.clone(), (*root_ts).clone(), replies)
            })
            .collect();
        candidates.sort_by(|one, other| {
            other.2.cmp(&one.2).then_with(|| one.1.cmp(&other.1)).then_with(|| one.0.cmp(&other.0))
        });
        Ok(ReplyCandidates(candidates))
    }

    /// Returns the messages with the most replies.
    pub(super) async fn most_replied(
        &self,
        channels: &[JoinedChannel<'_>],
        candidates: &ReplyCandidates,
    ) -> Result<Vec<TopMessage>, ArchiveError> {
        let mut most_replied = Vec::new();
        for (id, root_ts, replies) in candidates.0.iter().filter(|(.., replies)| *replies > 0) {
            let Some(channel) = channels.iter().find(|channel| channel.current_location().channel == *id)
            else {
                continue;
            };
            if most_replied.len() == TOP {
                break;
            }
            let root = channel.message(root_ts).await?;
            let message = root.as_ref().and_then(CountedMessage::read).filter(|root| !root.is_deleted);
            if message.is_some_and(|message| !self.people.is_bot(&message)) {
                most_replied.push(self.top(id, root_ts, root.as_ref(), *replies));
            }
        }
        Ok(most_replied)
    }

    fn top(&self, channel: &ChannelId, ts: &Ts, row: Option<&Item>, count: u64) -> TopMessage {
        let user = row.and_then(author).map(str::to_owned);
        TopMessage {
            channel: channel.clone(),
            channel_name: self.channel_name(channel),
            ts: ts.clone(),
            user_name: user.as_deref().and_then(|user| self.person_name(user)),
            user,
            count,
            permalink: permalink::message_permalink(self.workspace.base_url.as_deref(), channel, ts, None),
            excerpt: None,
        }
    }

    pub(super) fn names_in(&self, report: &FiguresReport) -> BTreeMap<String, String> {
        let exchanges = report
            .partners
            .iter()
            .flat_map(|partners| [&partners.mentions, &partners.reactions, &partners.replies]);
        let ids = exchanges.flat_map(|exchange| exchange.given.keys().chain(exchange.received.keys()));
        ids.filter_map(|id| Some((id.clone(), self.person_name(id)?))).collect()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

//! Makes a report. Channels are counted one after the other, in this period and in the previous one.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join3;
use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError};
use rules::figures::day::PersonDay;
use rules::interval::{Cover, Interval};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::basis::Basis;
use super::counting::{AboutPerson, Counter};
use super::first_posts::{self, FirstPostReader};
use super::inputs::{NotableDays, ReplyCandidates, ReportInputs};
use super::people::People;
use super::period::Period;
use super::report::{Figure, FigureName, FiguresReport, Number, Scope, ZoneRow};
use super::rollups::{RollupCoverage, Rollups};
use super::summary::{PeriodSummary, Summing, accounts};
use super::trend::TrendCounter;
use crate::concurrent::read_all;
use crate::coverage::TeamCoverage;
use crate::directory::WorkspaceChannels;
use crate::joined::{ChannelOfTeam, JoinedChannel};
use crate::{find, history};

/// Maximum number of channels whose roll-ups are in memory at the same time.
const CHANNELS_AT_ONCE: usize = 64;

/// The requested scope of a report.
pub enum ReportScope<'a> {
    Team,
    /// A channel, with all its locations.
    Channel(JoinedChannel<'a>),
    User(UserId),
}

/// A report to be made: its scope, its period, and its inputs besides its days.
pub struct ReportSources<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) team: &'a TeamId,
    pub(super) scope: Scope,
    pub(super) channels: Vec<JoinedChannel<'a>>,
    pub(super) period: Period,
    rollups: Option<&'a Rollups>,
    pub(super) grounds: ReportInputs,
    days: NotableDays,
    now_micros: i64,
}

/// A report, with the messages whose replies may change it later.
pub struct MadeReport {
    pub report: FiguresReport,
    pub(super) candidates: ReplyCandidates,
}

/// Makes a report. `now` determines whether its period is over. Roll-ups do not change the result.
pub async fn make_report(
    archive: &dyn Archive,
    team: &TeamId,
    requested_scope: ReportScope<'_>,
    period: Period,
    rollups: Option<&Rollups>,
    now: Timestamp,
) -> Result<FiguresReport, ArchiveError> {
    let sources = ReportSources::read(archive, team, requested_scope, period, rollups, now).await?;
    Ok(sources.make().await?.report)
}

impl<'a> ReportSources<'a> {
    /// Reads the inputs of a report besides its days.
    pub async fn read(
        archive: &'a dyn Archive,
        team: &'a TeamId,
        requested_scope: ReportScope<'a>,
        period: Period,
        rollups: Option<&'a Rollups>,
        now: Timestamp,
    ) -> Result<Self, ArchiveError> {
        let grounds = ReportInputs::read(archive, team, rollups).await?;
        let (scope, channels) = match requested_scope {
            ReportScope::Team => (Scope::Team, channels_of(archive, team, &grounds.names).await?),
            ReportScope::Channel(channel) => {
                (Scope::Channel(channel.current_location().channel.clone()), vec![channel])
            }
            ReportScope::User(user) => (Scope::User(user), channels_of(archive, team, &grounds.names).await?),
        };
        let now_micros = now.as_microsecond();
        let days = notable_days(archive, team, &channels, &period, now_micros).await?;
        Ok(Self { archive, team, scope, channels, period, rollups, grounds, days, now_micros })
    }

    /// Returns a hash of the state of everything that the report shows, which is stored with the report.
    /// `None` if the archive cannot show later whether the report is still current.
    pub fn stamp(&self) -> Option<String> {
        let is_about_person = matches!(self.scope, Scope::User(_));
        let rollups = self.rollups.filter(|_| !is_about_person && self.period.has_whole_days())?;
        let Self { team, scope, period, channels, days, .. } = self;
        self.grounds.stamp(team, scope, period, channels, days, rollups)
    }

    pub async fn make(self) -> Result<MadeReport, ArchiveError> {
        let Self { archive, team, scope, channels, period, rollups, grounds, days, now_micros } = self;
        let people = &grounds.people;
        let person = match &scope {
            Scope::User(user) => Some(user),
            Scope::Team | Scope::Channel(_) => None,
        };
        let mut basis = Basis::new(&scope, &period);
        let CountedPeriods { summaries: [mut summary, mut before], about: [about, previous_about], roots } =
            count_all(&channels, people, person, &period, rollups, &mut basis).await?;
        for (summary, about) in [(&mut summary, &about), (&mut before, &previous_about)] {
            summary.people.retain(|id, _| person.is_none_or(|person| person.as_str() == id));
            if let Some(of_person) = person.and_then(|person| summary.people.get_mut(person.as_str())) {
                complete(of_person, about);
            }
        }
        // The first posts of a workspace do not determine the first-time posters of a channel.
        let of_team = rollups.filter(|_| scope == Scope::Team);
        let firsts = of_team.map(|rollups| FirstPostReader { archive, team, rollups });
        let (earlier_posters, most_reacted, candidates) = try_join3(
            old_posters(firsts, &channels, people, [&summary, &before], &period),
            grounds.most_reacted(&channels, &summary),
            grounds.candidates(&channels, &roots),
        )
        .await?;
        let most_replied = grounds.most_replied(&channels, &candidates).await?;
        let known = [summary.total.messages, before.total.messages];
        let trend = TrendCounter { people, person, rollups }.count(&channels, &period, known).await?;
        basis.people(people);
        basis.replied(&most_replied);
        let total = match person {
            Some(_) => about.messages.values().sum(),
            None => summary.total.messages,
        };
        let scope_name = match &scope {
            Scope::Team => None,
            Scope::Channel(channel) => grounds.names.name(channel).map(str::to_owned),
            Scope::User(user) => grounds.person_name(user.as_str()),
        };
        let mut report = FiguresReport {
            team: team.clone(),
            team_name: grounds.workspace.shown_name().map(str::to_owned),
            scope_name,
            period,
            basis: String::new(),
            figures: figures([&summary, &before], people, earlier_posters.as_ref()),
            trend,
            channels: grounds.ranked_channels(&summary, &before),
            users: grounds.person_rows(&summary, &before, total, &about),
            hours: summary.hours,
            timezones: zones(&summary),
            emoji: emoji(&summary),
            most_reacted,
            most_replied,
            partners: person.is_some().then_some(about.partners),
            names: BTreeMap::new(),
            incomplete_days: days.incomplete,
            expired_days: days.expired,
            is_over: period.to() <= now_micros,
            scope,
        };
        basis.shown(&report);
        report.basis = basis.finish();
        report.names = grounds.names_in(&report);
        Ok(MadeReport { report, candidates })
    }
}

/// Returns the channels of a workspace without duplicates.
async fn channels_of<'a>(
    archive: &'a dyn Archive,
    team: &TeamId,
    names: &WorkspaceChannels,
) -> Result<Vec<JoinedChannel<'a>>, ArchiveError> {
    let named = names.iter().map(|(channel, _)| channel);
    let ids: BTreeSet<ChannelId> =
        history::channels_with_public_mark(archive, team).await?.into_iter().chain(named).collect();
    let mut channels: Vec<JoinedChannel<'a>> = Vec::new();
    let mut seen: BTreeSet<ChannelId> = BTreeSet::new();
    let locations: Vec<ChannelOfTeam> =
        ids.into_iter().map(|channel| ChannelOfTeam { team: team.clone(), channel }).collect();
    let reads: Vec<_> = locations
        .iter()
        .map(|location| find::joined_channel(archive, location, std::slice::from_ref(team)))
        .collect();
    for (location, joined) in locations.iter().zip(read_all(reads).await?) {
        if !seen.contains(&location.channel) {
            seen.extend(joined.locations().iter().map(|location| location.channel.clone()));
            channels.push(joined);
        }
    }
    Ok(channels)
}

/// The counts of a period and of the previous one.
struct CountedPeriods {
    summaries: [PeriodSummary; 2],
    about: [AboutPerson; 2],
    /// For each channel, the messages that may have started a thread in the period, with their replies in it.
    roots: Vec<BTreeMap<Ts, u64>>,
}

/// Counts channel by channel and keeps only the sums.
async fn count_all(
    channels: &[JoinedChannel<'_>],
    people: &People,
    person: Option<&UserId>,
    period: &Period,
    rollups: Option<&Rollups>,
    basis: &mut Basis,
) -> Result<CountedPeriods, ArchiveError> {
    let mut counter = Counter::new(people, person);
    // A report only shows the sums of the previous period.
    let mut previous_counter = Counter::new(people, person).without_credit();
    let (mut summing, mut previous_summing) = (Summing::new(Some(people)), Summing::new(None));
    let mut roots = Vec::with_capacity(channels.len());
    // Roll-ups have no figures about a single person.
    let rollups = rollups.filter(|_| person.is_none());
    let periods = [*period, period.previous()];
    for channels in channels.chunks(CHANNELS_AT_ONCE) {
        let reads: Vec<_> =
            channels.iter().map(|channel| RollupCoverage::read(rollups, channel, periods, people)).collect();
        for (channel, [rolled, rolled_previous]) in channels.iter().zip(read_all(reads).await?) {
            let counted = counter.count(channel, period, rolled).await?;
            let counted_previous = previous_counter.count(channel, &periods[1], rolled_previous).await?;
            for (counted, summing) in [(&counted, &mut summing), (&counted_previous, &mut previous_summing)] {
                basis.counted(counted);
                summing.add(counted);
            }
            roots.push(counted.roots);
        }
    }
    Ok(CountedPeriods {
        summaries: [summing.finish(), previous_summing.finish()],
        about: [counter.about, previous_counter.about],
        roots,
    })
}

/// Adds the actions of and toward others, which a person's own messages do not contain.
fn complete(person: &mut PersonDay, about: &AboutPerson) {
    let sum = |counts: &BTreeMap<String, u64>| counts.values().sum();
    person.mentions_received = sum(&about.partners.mentions.received);
    person.replies_received = sum(&about.partners.replies.received);
    // Reactions to their own messages are counted with those messages.
    person.reactions_given += sum(&about.partners.reactions.given);
}

/// Returns the posters of both periods who posted before the previous period; `None` if that is unknown.
async fn old_posters(
    first_posts: Option<FirstPostReader<'_>>,
    channels: &[JoinedChannel<'_>],
    people: &People,
    summaries: [&PeriodSummary; 2],
    period: &Period,
) -> Result<Option<BTreeSet<String>>, ArchiveError> {
    let posters = summaries.iter().flat_map(|summary| summary.posters()).map(|(id, _)| id);
    let before = period.previous().from();
    let mut candidates: BTreeSet<&str> = posters.collect();
    let mut earlier_posters = BTreeSet::new();
    if let Some(first_posts) = first_posts {
        earlier_posters = first_posts.resolve_candidates(people, before, &mut candidates).await?;
    }
    let found = first_posts::wrote_before(channels, people, before, candidates).await?;
    Ok(found.map(|found| earlier_posters.into_iter().chain(found).collect()))
}

fn figures(
    summaries: [&PeriodSummary; 2],
    people: &People,
    earlier_posters: Option<&BTreeSet<String>>,
) -> BTreeMap<FigureName, Figure> {
    let [summary, before] = summaries;
    let both = |count: &dyn Fn(&PeriodSummary) -> Option<Number>| Figure {
        value: count(summary),
        previous: count(before),
    };
    let count = |count: fn(&PeriodSummary) -> u64| both(&|summary| Some(Number::Count(count(summary))));
    let real =
        |real: &dyn Fn(&PeriodSummary) -> Option<f64>| both(&|summary| real(summary).map(Number::Real));
    let now = |count| Figure { value: Some(Number::Count(count)), previous: None };
    let posted_before = |id: &str| before.people.get(id).is_some_and(|person| person.first.is_some());
    let new = |summary: &PeriodSummary, is_old: &dyn Fn(&str) -> bool| {
        Some(Number::Count(summary.posters().into_iter().filter(|(id, _)| !is_old(id)).count() as u64))
    };
    let first_time = Figure {
        value: earlier_posters.and_then(|earlier_posters| {
            new(summary, &|id| posted_before(id) || earlier_posters.contains(id))
        }),
        previous: earlier_posters.and_then(|earlier_posters| new(before, &|id| earlier_posters.contains(id))),
    };
    let (all, active) = accounts(people);
    BTreeMap::from([
        (FigureName::AllUsers, now(all)),
        (FigureName::ActiveUsers, now(active)),
        (FigureName::Posters, count(|summary| summary.posters().len() as u64)),
        (FigureName::Messages, count(|summary| summary.total.messages)),
        (FigureName::Words, count(|summary| summary.total.words)),
        (FigureName::MedianMessages, real(&|summary| summary.median(|person| person.messages))),
        (FigureName::MedianWords, real(&|summary| summary.median(|person| person.words))),
        (FigureName::TopTenShare, real(&PeriodSummary::top_ten_share)),
        (FigureName::HalfOfWords, count(PeriodSummary::half_of_words)),
        (FigureName::FirstTimePosters, first_time),
        (FigureName::ChannelsUsed, count(|summary| summary.channels_used().len() as u64)),
        (FigureName::Reactions, count(|summary| summary.total.reactions_received)),
        (FigureName::Replies, count(|summary| summary.total.replies)),
        (FigureName::Threads, count(|summary| summary.threads)),
        (FigureName::BotMessages, count(|summary| summary.bot_messages)),
    ])
}

fn zones(summary: &PeriodSummary) -> Vec<ZoneRow> {
    let mut zones: Vec<ZoneRow> = summary.zones.values().cloned().collect();
    zones.sort_by(|one, other| other.messages.cmp(&one.messages).then_with(|| one.zone.cmp(&other.zone)));
    zones
}

fn emoji(summary: &PeriodSummary) -> Vec<(String, u64)> {
    let mut emoji: Vec<(String, u64)> =
        summary.emoji.iter().map(|(name, count)| (name.clone(), *count)).collect();
    emoji.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    emoji
}

/// Returns the days, in UTC, on which messages may be missing in a channel with any coverage, and those that have
/// expired in any. Days after now are left out.
async fn notable_days(
    archive: &dyn Archive,
    team: &TeamId,
    channels: &[JoinedChannel<'_>],
    period: &Period,
    now: i64,
) -> Result<NotableDays, ArchiveError> {
    let coverage = TeamCoverage::read(archive, team).await?;
    let (mut days, mut expired) = (BTreeSet::new(), BTreeSet::new());
    let until_now = Interval { from: period.from(), to: period.to().min(now) };
    for channel in channels {
        if let Some(until) = coverage.expired_before(&channel.current_location().channel) {
            expired.extend(period.days_touched(0, until.micros()));
        }
        if coverage.is_whole(&channel.current_location().channel, until_now).await? {
            continue;
        }
        let main_coverage = coverage.channel_coverage(&channel.current_location().channel).await?;
        let mut elsewhere = Vec::new();
        for location in channel.locations().iter().skip(1).filter(|location| location.team == *team) {
            let held = coverage.channel_coverage(&location.channel).await?.held;
            elsewhere
                .extend(held.iter().map(|span| Interval { from: span.from.micros(), to: span.to.micros() }));
        }
        if main_coverage.held.is_empty() && elsewhere.is_empty() {
            continue;
        }
        let elsewhere = Cover::from_intervals(elsewhere);
        for hole in main_coverage.holes {
            let from = hole.from.micros();
            // The gap of a single event has no length.
            let to = hole.to.map_or(now, |to| to.micros().max(from + 1)).min(now);
            for rest in elsewhere.uncovered(Interval { from, to }) {
                days.extend(period.days_touched(rest.from, rest.to));
            }
        }
    }
    Ok(NotableDays { incomplete: days.into_iter().collect(), expired: expired.into_iter().collect() })
}

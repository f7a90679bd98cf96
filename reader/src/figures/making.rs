//! Making a report: channels are counted one after the other, in this period and in the one before.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join3;
use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError};
use rules::figures::day::PersonDay;
use rules::interval::{Cover, Interval};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::basis::Basis;
use super::counting::{AboutPerson, Counter, People};
use super::firsts::{self, FirstPostReader};
use super::grounds::{Candidates, Grounds};
use super::period::Period;
use super::report::{Figure, FigureName, FiguresReport, Number, Scope, ZoneRow};
use super::rollups::{Rolled, Rollups};
use super::summary::{PeriodSummary, Summing, accounts};
use super::tables::Tables;
use crate::concurrent::read_all;
use crate::coverage::TeamCoverage;
use crate::directory::WorkspaceChannels;
use crate::joined::{ChannelOfTeam, JoinedChannel};
use crate::{find, history};

/// Channels whose roll-ups are in memory at the same time.
const CHANNELS_AT_ONCE: usize = 64;

/// What a report is asked for.
pub enum ReportScope<'a> {
    /// A workspace.
    Team,
    /// A channel, in all its places.
    Channel(JoinedChannel<'a>),
    /// A person.
    User(UserId),
}

/// A report that is to be made: what it is about, and what it is made from besides its days.
pub struct ReportSources<'a> {
    archive: &'a dyn Archive,
    pub(super) team: &'a TeamId,
    pub(super) scope: Scope,
    pub(super) channels: Vec<JoinedChannel<'a>>,
    pub(super) period: Period,
    rollups: Option<&'a Rollups>,
    pub(super) grounds: Grounds,
    incomplete_days: Vec<String>,
    now_micros: i64,
}

/// A report that was made, with what may change it later.
pub struct MadeReport {
    /// The report.
    pub report: FiguresReport,
    pub(super) candidates: Candidates,
}

/// Makes a report; `now` says whether its period is over. With or without roll-ups it is the same.
///
/// # Errors
/// As [`Archive::query`].
pub async fn make(
    archive: &dyn Archive,
    team: &TeamId,
    asked: ReportScope<'_>,
    period: Period,
    rollups: Option<&Rollups>,
    now: Timestamp,
) -> Result<FiguresReport, ArchiveError> {
    let asked = ReportSources::begin(archive, team, asked, period, rollups, now).await?;
    Ok(asked.make().await?.report)
}

impl<'a> ReportSources<'a> {
    /// Reads what a report is made from besides its days.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn begin(
        archive: &'a dyn Archive,
        team: &'a TeamId,
        asked: ReportScope<'a>,
        period: Period,
        rollups: Option<&'a Rollups>,
        now: Timestamp,
    ) -> Result<Self, ArchiveError> {
        let grounds = Grounds::read(archive, team, rollups).await?;
        let (scope, channels) = match asked {
            ReportScope::Team => (Scope::Team, channels_of(archive, team, &grounds.names).await?),
            ReportScope::Channel(channel) => (Scope::Channel(channel.main().channel.clone()), vec![channel]),
            ReportScope::User(user) => (Scope::User(user), channels_of(archive, team, &grounds.names).await?),
        };
        let now_micros = now.as_microsecond();
        let incomplete_days = incomplete_days(archive, team, &channels, &period, now_micros).await?;
        Ok(Self { archive, team, scope, channels, period, rollups, grounds, incomplete_days, now_micros })
    }

    pub(super) fn archive(&self) -> &'a dyn Archive {
        self.archive
    }

    /// What identifies the state of everything that the report shows; `None` if that is not known, or may change without it.
    pub(super) fn stamp(&self) -> Option<String> {
        let is_about_person = matches!(self.scope, Scope::User(_));
        let rollups = self.rollups.filter(|_| !is_about_person && self.period.has_whole_days())?;
        let Self { team, scope, period, channels, incomplete_days, .. } = self;
        self.grounds.stamp(team, scope, period, channels, incomplete_days, rollups)
    }

    /// Makes it.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn make(self) -> Result<MadeReport, ArchiveError> {
        let Self { archive, team, scope, channels, period, rollups, grounds, incomplete_days, now_micros } =
            self;
        let Grounds { people, names, workspace, .. } = grounds;
        let person = match &scope {
            Scope::User(user) => Some(user),
            Scope::Team | Scope::Channel(_) => None,
        };
        let mut basis = Basis::new(&scope, &period);
        let CountedPeriods { summaries: [mut now_there, mut before], about: [about, about_before], roots } =
            count_all(&channels, &people, person, &period, rollups, &mut basis).await?;
        for (summary, about) in [(&mut now_there, &about), (&mut before, &about_before)] {
            summary.people.retain(|id, _| person.is_none_or(|person| person.as_str() == id));
            if let Some(of_person) = person.and_then(|person| summary.people.get_mut(person.as_str())) {
                complete(of_person, about);
            }
        }
        // Who is new in a channel is not known of the whole workspace.
        let of_team = rollups.filter(|_| scope == Scope::Team);
        let firsts = of_team.map(|rollups| FirstPostReader { archive, team, rollups });
        let tables = Tables { people: &people, names: &names, workspace: &workspace };
        let (old, most_reacted, candidates) = try_join3(
            old_posters(firsts, &channels, &people, [&now_there, &before], &period),
            tables.most_reacted(&channels, &now_there),
            tables.candidates(&channels, &roots),
        )
        .await?;
        let most_replied = tables.most_replied(&channels, &candidates).await?;
        basis.people(&people);
        basis.replied(&most_replied);
        let total = match person {
            Some(_) => about.messages.values().sum(),
            None => now_there.total.messages,
        };
        let scope_name = match &scope {
            Scope::Team => None,
            Scope::Channel(channel) => names.name(channel).map(str::to_owned),
            Scope::User(user) => tables.person_name(user.as_str()),
        };
        let mut report = FiguresReport {
            team: team.clone(),
            team_name: workspace.name.clone(),
            scope_name,
            period,
            basis: String::new(),
            figures: figures([&now_there, &before], &people, old.as_ref()),
            channels: tables.channels(&now_there, &before),
            users: tables.users(&now_there, &before, total, &about),
            hours: now_there.hours,
            timezones: zones(&now_there),
            emoji: emoji(&now_there),
            most_reacted,
            most_replied,
            partners: person.is_some().then_some(about.partners),
            names: BTreeMap::new(),
            incomplete_days,
            is_over: period.to() <= now_micros,
            scope,
        };
        basis.shown(&report);
        report.basis = basis.finish();
        report.names = tables.names_in(&report);
        Ok(MadeReport { report, candidates })
    }
}

/// The channels of a workspace, each once.
async fn channels_of<'a>(
    archive: &'a dyn Archive,
    team: &TeamId,
    names: &WorkspaceChannels,
) -> Result<Vec<JoinedChannel<'a>>, ArchiveError> {
    let named = names.iter().map(|(channel, _)| channel);
    let ids: BTreeSet<ChannelId> = history::marked(archive, team).await?.into_iter().chain(named).collect();
    let mut channels: Vec<JoinedChannel<'a>> = Vec::new();
    let mut seen: BTreeSet<ChannelId> = BTreeSet::new();
    let places: Vec<ChannelOfTeam> =
        ids.into_iter().map(|channel| ChannelOfTeam { team: team.clone(), channel }).collect();
    let reads: Vec<_> =
        places.iter().map(|place| find::joined(archive, place, std::slice::from_ref(team))).collect();
    for (place, joined) in places.iter().zip(read_all(reads).await?) {
        if !seen.contains(&place.channel) {
            seen.extend(joined.places().iter().map(|place| place.channel.clone()));
            channels.push(joined);
        }
    }
    Ok(channels)
}

/// What is counted of a period and of the one before it.
struct CountedPeriods {
    summaries: [PeriodSummary; 2],
    about: [AboutPerson; 2],
    /// Messages of each channel that may have begun a thread in the period, with their replies in it.
    roots: Vec<BTreeMap<Ts, u64>>,
}

/// Counts channel by channel, and keeps only sums.
async fn count_all(
    channels: &[JoinedChannel<'_>],
    people: &People,
    person: Option<&UserId>,
    period: &Period,
    rollups: Option<&Rollups>,
    basis: &mut Basis,
) -> Result<CountedPeriods, ArchiveError> {
    let mut counter = Counter::new(people, person);
    // Of the period before, only sums are shown.
    let mut counter_before = Counter::new(people, person).without_credit();
    let (mut summing, mut summing_before) = (Summing::new(Some(people)), Summing::new(None));
    let mut roots = Vec::with_capacity(channels.len());
    // What has to do with one person is in no roll-up.
    let rollups = rollups.filter(|_| person.is_none());
    let periods = [*period, period.previous()];
    for channels in channels.chunks(CHANNELS_AT_ONCE) {
        let reads: Vec<_> =
            channels.iter().map(|channel| Rolled::read(rollups, channel, periods, people)).collect();
        for (channel, [rolled, rolled_before]) in channels.iter().zip(read_all(reads).await?) {
            let counted = counter.count(channel, period, rolled).await?;
            let counted_before = counter_before.count(channel, &periods[1], rolled_before).await?;
            for (counted, summing) in [(&counted, &mut summing), (&counted_before, &mut summing_before)] {
                basis.counted(counted);
                summing.add(counted);
            }
            roots.push(counted.roots);
        }
    }
    Ok(CountedPeriods {
        summaries: [summing.finish(), summing_before.finish()],
        about: [counter.about, counter_before.about],
        roots,
    })
}

/// A person's own messages do not say what others did to them.
fn complete(person: &mut PersonDay, about: &AboutPerson) {
    let sum = |counts: &BTreeMap<String, u64>| counts.values().sum();
    person.mentions_received = sum(&about.partners.mentions.received);
    person.replies_received = sum(&about.partners.replies.received);
    // What they gave to themselves is in their own messages.
    person.reactions_given += sum(&about.partners.reactions.given);
}

/// Posters of both periods who wrote before the earlier one; `None` if it cannot be said.
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
    let mut old = BTreeSet::new();
    if let Some(first_posts) = first_posts {
        old = first_posts.settle(people, before, &mut candidates).await?;
    }
    let found = firsts::wrote_before(channels, people, before, candidates).await?;
    Ok(found.map(|found| old.into_iter().chain(found).collect()))
}

fn figures(
    summaries: [&PeriodSummary; 2],
    people: &People,
    old: Option<&BTreeSet<String>>,
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
    let wrote_then = |id: &str| before.people.get(id).is_some_and(|person| person.first.is_some());
    let new = |summary: &PeriodSummary, is_old: &dyn Fn(&str) -> bool| {
        Some(Number::Count(summary.posters().into_iter().filter(|(id, _)| !is_old(id)).count() as u64))
    };
    let first_time = Figure {
        value: old.and_then(|old| new(summary, &|id| wrote_then(id) || old.contains(id))),
        previous: old.and_then(|old| new(before, &|id| old.contains(id))),
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
    let zones = summary.zones.iter().map(|(zone, total)| ZoneRow {
        zone: zone.clone(),
        people: total.people,
        messages: total.messages,
        words: total.words,
    });
    let mut zones: Vec<ZoneRow> = zones.collect();
    zones.sort_by(|one, other| other.messages.cmp(&one.messages).then_with(|| one.zone.cmp(&other.zone)));
    zones
}

fn emoji(summary: &PeriodSummary) -> Vec<(String, u64)> {
    let mut emoji: Vec<(String, u64)> =
        summary.emoji.iter().map(|(name, count)| (name.clone(), *count)).collect();
    emoji.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    emoji
}

/// The days, in UTC, of which something may be missing in a channel that anything is held of; what is still to come does not.
async fn incomplete_days(
    archive: &dyn Archive,
    team: &TeamId,
    channels: &[JoinedChannel<'_>],
    period: &Period,
    now: i64,
) -> Result<Vec<String>, ArchiveError> {
    let coverage = TeamCoverage::read(archive, team).await?;
    let mut days = BTreeSet::new();
    let until_now = Interval { from: period.from(), to: period.to().min(now) };
    for channel in channels {
        if coverage.is_whole(&channel.main().channel, until_now).await? {
            continue;
        }
        let of_main = coverage.of(&channel.main().channel).await?;
        let mut elsewhere = Vec::new();
        for place in channel.places().iter().skip(1).filter(|place| place.team == *team) {
            let held = coverage.of(&place.channel).await?.held;
            elsewhere
                .extend(held.iter().map(|span| Interval { from: span.from.micros(), to: span.to.micros() }));
        }
        if of_main.held.is_empty() && elsewhere.is_empty() {
            continue;
        }
        let elsewhere = Cover::of(elsewhere);
        for hole in of_main.holes {
            let from = hole.from.micros();
            // A gap of one event has no length.
            let to = hole.to.map_or(now, |to| to.micros().max(from + 1)).min(now);
            for rest in elsewhere.rest(Interval { from, to }) {
                days.extend(period.days_touched(rest.from, rest.to));
            }
        }
    }
    Ok(days.into_iter().collect())
}

//! Which channels are read, and what of each.

use anyhow::bail;
use ports::archive::{Archive, ItemKey, Query, key, query_all};
use reader::{directory, find};
use rules::filled::{self, Source, Span};
use rules::interval::{Interval, rest};
use rules::public_mark::MarkState;
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::WebApi;
use workers::historian::WantedSpan;
use workers::historian::wanted::{Asked, wanted as spans_wanted};

use super::{BackfillArgs, DAY_MICROS};

/// A channel that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedChannel {
    pub(super) channel: ChannelId,
    pub(super) name: Option<String>,
}

/// The channels that are read, by workspace.
pub(super) async fn channels(
    archive: &dyn Archive,
    api: &WebApi,
    args: &BackfillArgs,
) -> anyhow::Result<Vec<(TeamId, Vec<PlannedChannel>)>> {
    let mut found: Vec<(TeamId, Vec<PlannedChannel>)> = Vec::new();
    if args.all {
        for team in api.teams().await? {
            let names = directory::read(archive, &team).await?;
            let marks = query_all(archive, Query::partition(key::public_marks(&team))).await?;
            let kept = marks.iter().filter(|mark| MarkState::of(Some(mark)) == MarkState::Public);
            let kept = kept.filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
            let kept: Vec<PlannedChannel> = kept
                .map(|channel| PlannedChannel { name: names.name(&channel).map(str::to_owned), channel })
                .collect();
            if !kept.is_empty() {
                found.push((team, kept));
            }
        }
        if found.is_empty() {
            bail!("no channel is kept yet: `annalist sync` brings in the public ones first");
        }
        return Ok(found);
    }
    for called in &args.channels {
        let place = find::place(archive, called, None).await?;
        let mark = archive.get(&ItemKey::public_mark(&place.team, &place.channel)).await?;
        if MarkState::of(mark.as_ref()) != MarkState::Public {
            bail!("channel {called} is not known to be public, and only public channels are kept");
        }
        let names = directory::read(archive, &place.team).await?;
        let name = names.name(&place.channel).map(str::to_owned);
        let planned = PlannedChannel { channel: place.channel, name };
        match found.iter_mut().find(|(team, _)| *team == place.team) {
            Some((_, channels)) if channels.contains(&planned) => {}
            Some((_, channels)) => channels.push(planned),
            None => found.push((place.team, vec![planned])),
        }
    }
    Ok(found)
}

/// What tells what was asked for from anything else.
pub(super) fn fingerprint(args: &BackfillArgs, channels: &[PlannedChannel]) -> String {
    let BackfillArgs { all, since, until, refetch_days, .. } = args;
    let ts = |ts: &Option<Ts>| ts.as_ref().map(Ts::to_string).unwrap_or_default();
    let mut ids: Vec<&str> = channels.iter().map(|planned| planned.channel.as_str()).collect();
    ids.sort_unstable();
    let ids = if *all { "all".to_owned() } else { ids.join(",") };
    format!("{ids};{};{};{refetch_days}", ts(since), ts(until))
}

/// What of a channel is read, newest first.
pub(super) async fn wanted(
    archive: &dyn Archive,
    team: &TeamId,
    planned: &PlannedChannel,
    args: &BackfillArgs,
    now: &Ts,
    unfinished: Option<&Ts>,
) -> anyhow::Result<Vec<WantedSpan>> {
    let rows = query_all(archive, Query::partition(key::filled(team))).await?;
    let spans: Vec<Span> =
        filled::spans(&rows).into_iter().filter(|span| span.channel == planned.channel).collect();
    let to = args.until.as_ref().map_or(now.micros(), |until| until.micros().min(now.micros()));
    let asked = match &args.since {
        Some(since) => Asked::Between(Interval { from: since.micros(), to }),
        None => Asked::Missing {
            whole: Interval { from: 0, to },
            again_micros: i64::from(args.refetch_days) * DAY_MICROS,
        },
    };
    let holes = rest(Interval { from: 0, to }, spans.iter().map(Span::interval));
    // Only the facts of that very run say what it read; with an end of the user's they may be older.
    let of_that_run = |span: &&Span| {
        let ends_there = |began: &Ts| began.micros() == span.to.micros();
        args.until.is_none() && span.source == Source::History && unfinished.is_some_and(ends_there)
    };
    let begun = spans.iter().find(of_that_run).map(Span::interval);
    Ok(spans_wanted(&asked, &holes, &spans, begun))
}

//! Once history was read, a comparison with Slack finds nothing missing and nothing changed, and takes nothing that Slack shows for
//! gone.

use rules::interval::Interval;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::TEAM;
use workers::historian::{
    ChannelReader, Comparison, HistoryCalls, PageBudget, PausePolicy, PlannedSpan, ReadCounts, ThreadChoice,
};
use workers::store::PreviewArchive;

use super::fleet::{ProcessDependencies, Surroundings};
use super::history::shown;
use super::schedule::Life;
use super::workload;
use super::world::Invariant;

/// Everything that was ever posted.
const ALWAYS: Interval = Interval { from: 0, to: i64::MAX };

/// Compares every public channel that Slack shows, as `annalist reconcile --all --dry-run` does.
pub(super) async fn compare(all: &Surroundings, channels: usize) {
    let life = Life::new("reconcile".into(), 0);
    let ProcessDependencies { web, .. } = all.seen_by(&life);
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let archive = PreviewArchive::of(Some(all.archive.clone()));
    let calls = HistoryCalls::new(web, team, PausePolicy::WaitOut);
    let shown = shown(&all.truth, channels);
    let ids = workload::public_ids(channels);
    for channel in ids.iter().filter_map(|id| ChannelId::parse(id).ok()) {
        if all.truth.ask("conversations.history", &[("channel", channel.as_str())])["ok"] != true {
            continue;
        }
        let (comparison, counts) = (Comparison::of(ALWAYS, false), ReadCounts::default());
        let reader = ChannelReader {
            archive: &archive,
            queue: None,
            calls: &calls,
            channel: &channel,
            look_back_micros: 0,
            counts: &counts,
            threads: ThreadChoice::Compared(&comparison),
        };
        let wanted = PlannedSpan { span: ALWAYS, to: ALWAYS.to_ts() };
        let end = reader.read_span(&wanted, &mut PageBudget::unlimited()).await;
        let found = comparison.found();
        let is_shown = |ts: &str| shown.contains_key(&(channel.to_string(), ts.to_owned()));
        if let Err(error) = end {
            all.world.broke(Invariant::Bounded, format!("{channel} cannot be compared with Slack: {error}"));
        } else if found.missing + found.changed > 0 {
            all.world.broke(Invariant::Lost, format!("of {channel} not all is here: {found:?}"));
        } else if found.extra_ts.iter().any(|ts| is_shown(ts.as_str())) {
            all.world
                .broke(Invariant::Archive, format!("in {channel} something shown seems gone: {found:?}"));
        }
    }
    life.die();
}

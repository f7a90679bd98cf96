//! Checks, after history was read, that a comparison with Slack finds no missing and no changed message, and
//! reports no shown message as extra.

use ports::archive::ErasureFacts;
use rules::interval::Interval;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::TEAM;
use workers::historian::{
    ChannelReader, Comparison, HistoryCalls, PageBudget, PausePolicy, PlannedSpan, ReadCounts, ThreadChoice,
};
use workers::store::PreviewArchive;

use super::fleet::{ProcessDependencies, SimulationState};
use super::history::shown;
use super::schedule::Life;
use super::workload;
use super::world::Invariant;

/// The interval of all messages.
const ALWAYS: Interval = Interval { from: 0, to: i64::MAX };

/// Compares every public channel that Slack shows, as `annalist reconcile --all --dry-run` does.
pub(super) async fn compare(all: &SimulationState, channels: usize) {
    let life = Life::new("reconcile".into(), 0);
    let ProcessDependencies { web, .. } = all.dependencies_for(&life);
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let archive = PreviewArchive::new(Some(all.archive.clone()));
    let Ok(facts) = ErasureFacts::load(&archive, &team).await else { return };
    let calls = HistoryCalls::new(web, team, PausePolicy::WaitOut);
    let shown = shown(&all.truth, channels);
    let ids = workload::public_ids(channels);
    for channel in ids.iter().filter_map(|id| ChannelId::parse(id).ok()) {
        if all.truth.answer_without_faults("conversations.history", &[("channel", channel.as_str())])["ok"]
            != true
        {
            continue;
        }
        let comparison = Comparison::new(ALWAYS, false, facts.clone());
        let counts = ReadCounts::default();
        let reader = ChannelReader {
            archive: &archive,
            queue: None,
            calls: &calls,
            channel: &channel,
            look_back_micros: 0,
            counts: &counts,
            threads: ThreadChoice::Compared(&comparison),
        };
        let planned = PlannedSpan { span: ALWAYS, to: ALWAYS.to_ts() };
        let end = reader.read_span(&planned, &mut PageBudget::unlimited()).await;
        let found = comparison.found();
        let is_shown = |ts: &str| shown.contains_key(&(channel.to_string(), ts.to_owned()));
        if let Err(error) = end {
            all.world.report_violation(
                Invariant::Bounded,
                format!("{channel} cannot be compared with Slack: {error}"),
            );
        } else if found.missing + found.changed > 0 {
            all.world.report_violation(
                Invariant::Lost,
                format!("messages of {channel} are missing or outdated: {found:?}"),
            );
        } else if found.extra_ts.iter().any(|ts| is_shown(ts.as_str())) {
            all.world.report_violation(
                Invariant::Archive,
                format!("messages of {channel} that Slack shows are reported as extra: {found:?}"),
            );
        }
    }
    life.die();
}

//! A night after the faults: a disk has lost rows, a rule removes the messages of a channel, and a hold keeps some of
//! them. Of the archived channels, some were compared a month ago, the others not so long ago. The process that does the
//! night's work is killed once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ports::archive::erasure::{HoldFact, HoldScope};
use ports::archive::{Archive, ArchiveError, ArchiveExt, ErasureFacts, Item, ItemKey};
use ports::clock::TimestampMs;
use reader::joined::ChannelOfTeam;
use reader::proof;
use reader::range::ts_from_micros;
use rules::file::row;
use rules::history::proof::{DAY_MICROS, ProvenSpan, last_night, midnight_before, night_key};
use rules::retention::{RetentionPeriod, RetentionRule};
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, user_id};
use tokio::time::{Instant, sleep};
use workers::historian::BackfillMode;

use super::fleet::SimulationState;
use super::history::{row_matches, shown};
use super::model::MessageLocation;
use super::operator::wait_until_idle;
use super::schedule::Life;
use super::supervisor::drain;
use super::workload;
use super::world::Invariant;

/// How long before midnight the processes start: the first poll of an archive that has not seen a night only notes the
/// last one.
const BEFORE_MIDNIGHT: Duration = Duration::from_secs(300);

/// A night takes minutes, and is begun again an hour after a process died in it.
const DONE_WITHIN: Duration = Duration::from_secs(3 * 3_600);

/// The state before the night.
struct Evening {
    team: TeamId,
    /// The messages, without those that are lost.
    rows: Vec<Item>,
    hold: Option<HoldFact>,
    /// When the rows were lost.
    lost_at: Ts,
    /// The archived channels that were compared a month ago.
    due: BTreeSet<ChannelId>,
    midnight: Ts,
}

/// Plays a night in some runs, and checks what it removed, stored and proved.
pub(super) async fn play(all: &SimulationState, channels: usize) {
    if !all.world.chance_percent(40) {
        return;
    }
    let played = async {
        let evening = Evening::begin(all, channels).await?;
        until_done(all, &evening).await?;
        wait_until_idle(all).await;
        evening.check(all, channels).await
    };
    if let Err(error) = played.await {
        all.world.report_violation(Invariant::Bounded, format!("a night cannot be played: {error}"));
    }
}

impl Evening {
    /// Sets a rule and a hold, loses rows, and lets the time pass to the evening after the next.
    async fn begin(all: &SimulationState, channels: usize) -> Result<Self, ArchiveError> {
        let (world, archive) = (&all.world, &*all.archive);
        let invalid = |error: slack::ids::InvalidId| ArchiveError::Unavailable(error.to_string());
        let team = TeamId::parse(TEAM).map_err(invalid)?;
        let items = archive.items();
        let rows: Vec<Item> = items.iter().filter(|item| is_message(item)).cloned().collect();
        let now = ts_from_micros(world.true_now().0.saturating_mul(1_000));
        if world.chance_percent(60) {
            let ids = workload::public_ids(channels);
            let index = usize::try_from(world.random_below(ids.len() as u64)).unwrap_or_default();
            let channel = ids.get(index).and_then(|id| ChannelId::parse(id).ok());
            let channel = channel.filter(|_| world.chance_percent(80));
            let period = RetentionPeriod::Days(1);
            let rule = RetentionRule { team: team.clone(), channel, period, by: None, set_at: now.clone() };
            archive.write(&rule.update()).await?;
        }
        let hold =
            world.chance_percent(60).then(|| random_scope(all, &rows)).flatten().map(|scope| HoldFact {
                team: team.clone(),
                id: "00000001".into(),
                scope,
                reason: "a dispute".into(),
                by: None,
                set_at: now.clone(),
                release: None,
                is_swept: false,
            });
        if let Some(hold) = &hold {
            archive.write(&hold.update()).await?;
        }
        // The bytes of a file would stay, and nothing would lead to them any more.
        let shared: BTreeSet<(String, String)> = items
            .iter()
            .flat_map(|item| row::shares(item).map(|share| (share.channel.to_string(), share.ts.to_string())))
            .collect();
        let (lost, rows): (Vec<Item>, Vec<Item>) = rows.into_iter().partition(|row| {
            let location = (channel_of(row).to_owned(), row.key.timestamp.clone());
            !row.is_erased() && !shared.contains(&location) && world.chance_percent(20)
        });
        for row in lost {
            world.note("world", || format!("the disk loses {:?}", row.key));
            let revisions = format!("revision#{TEAM}#{}#{}", channel_of(&row), row.key.timestamp);
            for item in items.iter().filter(|item| item.key == row.key || item.key.item_id == revisions) {
                archive.delete_unchanged(item).await?;
            }
        }
        let due = compared_a_month_ago(all, &team).await?;
        let micros = midnight_before(now.micros()).micros() + 2 * DAY_MICROS;
        let until = TimestampMs(micros / 1_000);
        world.skip(until.since(world.true_now()).saturating_sub(BEFORE_MIDNIGHT));
        Ok(Self { team, rows, hold, lost_at: now, due, midnight: ts_from_micros(micros) })
    }

    async fn check(&self, all: &SimulationState, channels: usize) -> Result<(), ArchiveError> {
        let world = &all.world;
        let archive = &*all.archive as &dyn Archive;
        let facts = ErasureFacts::load(archive, &self.team).await?;
        let kept = proof::kept_channels(archive, &self.team).await?;
        // The check of history has also stored messages under an id whose change was erased.
        let is_kept = |item: &Item| {
            !is_message(item) || kept.iter().any(|known| known.channel.as_str() == channel_of(item))
        };
        for item in all.archive.items().iter().filter(|item| facts.expires(item) && is_kept(item)) {
            let what = format!("{:?} has expired, and is still there", item.key);
            world.report_violation(Invariant::Erased, what);
        }
        for row in self.rows.iter().filter(|row| !row.is_erased()) {
            let is_there = all.archive.item(&row.key).is_some_and(|now| !now.is_erased());
            if !is_there && (self.is_held(row) || !facts.covers_row(row)) {
                let what = format!("the night removed {:?}, which must stay", row.key);
                world.report_violation(Invariant::Lost, what);
            }
        }
        let shown = shown(&all.truth, channels);
        for known in kept {
            let id = [("channel", known.channel.as_str())];
            let is_shown = all.truth.answer_without_faults("conversations.history", &id)["ok"] == true;
            let location = ChannelOfTeam { team: known.team.clone(), channel: known.channel.clone() };
            let newest = location.newest(archive).await?;
            let is_over = newest.is_some_and(|newest| newest.is_deleted() || newest.next_id().is_some());
            if !is_shown || is_over {
                continue;
            }
            // An archived channel is compared once more, in the night before, and then once a month.
            let is_due = self.due.contains(&known.channel);
            let is_reached = |proven: &&ProvenSpan| {
                known.reaches(&self.midnight) || proven.is_archived && (!is_due || proven.at >= self.lost_at)
            };
            let Some(proven) = known.proven.as_ref().filter(is_reached) else {
                let what = format!("{} was not compared with Slack: {known:?}", known.channel);
                world.report_violation(Invariant::Bounded, what);
                continue;
            };
            // What was lost of an archived channel after its last comparison is looked for a month later.
            if proven.at < self.lost_at {
                continue;
            }
            let expired = facts.expired_before(&self.team, &known.channel);
            let from =
                expired.map_or(proven.from.micros(), |expired| expired.micros().max(proven.from.micros()));
            check_proven(all, &shown, &known.channel, from);
        }
        Ok(())
    }

    fn is_held(&self, row: &Item) -> bool {
        let keeps = |hold: &HoldFact| hold.keeps(channel_of(row), &row.key.timestamp, row.text("user_id"));
        self.hold.as_ref().is_some_and(keeps)
    }
}

/// Lets some of the archived channels be compared a month ago. Returns them.
async fn compared_a_month_ago(
    all: &SimulationState,
    team: &TeamId,
) -> Result<BTreeSet<ChannelId>, ArchiveError> {
    let archive = &*all.archive as &dyn Archive;
    let mut due = BTreeSet::new();
    for known in proof::kept_channels(archive, team).await? {
        let Some(proven) = known.proven.as_ref().filter(|proven| proven.is_archived) else { continue };
        if !all.world.chance_percent(50) {
            continue;
        }
        let through = ts_from_micros(proven.through.micros() - 30 * DAY_MICROS);
        let from = proven.from.clone().min(through.clone());
        // The register only takes a later end.
        if let Some(row) = archive.get(&ItemKey::verified(team, known.channel.as_str())).await? {
            archive.delete_unchanged(&row).await?;
        }
        archive.write(&known.prove(&ProvenSpan { from, through, ..proven.clone() })).await?;
        due.insert(known.channel);
    }
    Ok(due)
}

/// Returns the scope of a person or of one message.
fn random_scope(all: &SimulationState, rows: &[Item]) -> Option<HoldScope> {
    let world = &all.world;
    if world.chance_percent(50) {
        let user = user_id(usize::try_from(world.random_below(3)).unwrap_or_default());
        return Some(HoldScope { user: UserId::parse(&user).ok(), ..HoldScope::default() });
    }
    let row = rows.get(usize::try_from(world.random_below(rows.len() as u64)).unwrap_or_default())?;
    let ts = Ts::parse(&row.key.timestamp).ok()?;
    let channel = ChannelId::parse(channel_of(row)).ok();
    let to = Some(ts_from_micros(ts.micros() + 1));
    Some(HoldScope { channel, from: Some(ts), to, user: None })
}

/// Runs a process that is killed in or before the night, and another that ends the night.
async fn until_done(all: &SimulationState, evening: &Evening) -> Result<(), ArchiveError> {
    let killed = Life::new("keeper.1".into(), 0);
    let mut running = all.start(&killed, BackfillMode::Gaps);
    sleep(BEFORE_MIDNIGHT + all.world.random_millis(0..150_000)).await;
    killed.die();
    running.tasks.abort_all();
    let life = Life::new("keeper.2".into(), 0);
    let mut running = all.start(&life, BackfillMode::Gaps);
    let began = Instant::now();
    let midnight_ms = evening.midnight.micros() / 1_000;
    while last_night(all.archive.item(&night_key(&evening.team)).as_ref())
        .is_none_or(|night| night.0 < midnight_ms)
    {
        if began.elapsed() > DONE_WITHIN {
            let what = format!("a night is not done within {} s", DONE_WITHIN.as_secs());
            all.world.report_violation(Invariant::Bounded, what);
            return Ok(());
        }
        sleep(Duration::from_secs(10)).await;
    }
    wait_until_idle(all).await;
    drain(all, &life, &mut running).await;
    life.die();
    Ok(())
}

/// Checks that the archive has what Slack shows of a channel from a time on.
fn check_proven(
    all: &SimulationState,
    shown: &BTreeMap<MessageLocation, Value>,
    channel: &ChannelId,
    from: i64,
) {
    // Of a deleted root nothing is left that could be stored, and Slack shows replies with their root only.
    let shown = shown.iter().filter(|(_, message)| {
        let root = message["thread_ts"].as_str().and_then(|root| Ts::parse(root).ok());
        message["subtype"] != "tombstone" && root.is_none_or(|root| root.micros() >= from)
    });
    for ((_, ts), message) in shown.filter(|((of, _), _)| of == channel.as_str()) {
        let row = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()));
        let is_kept = row.is_some_and(|row| row.is_erased() || row_matches(&row, message));
        if !is_kept && Ts::parse(ts).is_ok_and(|ts| ts.micros() >= from) {
            let what = format!("{channel} is proven, and lacks {ts}");
            all.world.report_violation(Invariant::Lost, what);
        }
    }
}

/// Returns the channel of a message row.
fn channel_of(row: &Item) -> &str {
    row.key.item_id.rsplit('#').next().unwrap_or_default()
}

fn is_message(item: &Item) -> bool {
    item.key.item_id.starts_with(&format!("message#{TEAM}#"))
}

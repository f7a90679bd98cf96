//! A person erases data at any time, while all other faults continue.

use std::collections::BTreeSet;
use std::sync::Arc;

use ports::archive::{ArchiveExt, ErasureFact, ErasureFacts, ErasureScope, Item, ItemKey, rows};
use rules::file::row;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, channel_id, user_id};
use testkit::memory::archive::MemoryArchive;
use tokio::time::sleep;
use workers::PortError;
use workers::eraser::{ErasedAhead, Eraser, EraserMode, JobCover, cover_of};
use workers::runtime::updates_of;

use super::fleet::{ProcessDependencies, SimulationState};
use super::ledger::event_id_in;
use super::model::MessageLocation;
use super::schedule::Life;
use super::unaccepted::{channel_of, location_of_row, locations_of};
use super::verdict::{is_public_mark, request};
use super::workload::{START_MICROS, later_id};
use super::world::{FaultKind, Invariant, World, lock};

/// Upper bound of the length of a run, by Slack's clock.
const SPAN_MICROS: u64 = 200_000_000;

/// Erases something now and then, while the faults last.
pub(super) async fn erase_at_random(all: Arc<SimulationState>, channels: usize) {
    let world = &all.world;
    if !world.is_enabled(FaultKind::Erased) || !world.chance_percent(50) {
        return;
    }
    for _ in 0..=world.random_below(3) {
        sleep(world.random_millis(500..150_000)).await;
        let mut facts = random_facts(&all, channels);
        if facts.is_empty() || !world.has_faults() {
            continue;
        }
        let ahead = erased_ahead(&all, &facts).await;
        facts.extend(ahead.message_facts(&facts));
        world.fault(FaultKind::Erased, "person", || format!("{facts:?}"));
        lock(&all.erasures).extend(facts.iter().cloned());
        erase(&all, &facts, &ahead).await;
    }
}

/// Finds what a person's request covers although its time is later. A channel's later states have no facts by
/// which a verdict could know that they were erased.
async fn erased_ahead(all: &SimulationState, facts: &[ErasureFact]) -> ErasedAhead {
    let is_person = facts.iter().all(|fact| matches!(fact.scope, ErasureScope::User(_)));
    if !is_person || !all.world.chance_percent(50) {
        return ErasedAhead::default();
    }
    ErasedAhead::find(&*all.archive, facts).await.unwrap_or_default()
}

/// Returns random erasure facts: for a person, a channel under each of its ids, or an archived message.
fn random_facts(all: &SimulationState, channels: usize) -> Vec<ErasureFact> {
    let world = &all.world;
    let Ok(team) = TeamId::parse(TEAM) else { return Vec::new() };
    let until = random_ts(world);
    let fact = |scope| ErasureFact { team: team.clone(), scope, until: until.clone() };
    match world.random_below(4) {
        0 | 1 => {
            let user = user_id(usize::try_from(world.random_below(3)).unwrap_or_default());
            UserId::parse(&user).map(|user| fact(ErasureScope::User(user))).into_iter().collect()
        }
        2 => {
            let id = channel_id(usize::try_from(world.random_below(channels as u64)).unwrap_or_default());
            let ids = [later_id(&id), id].into_iter().filter_map(|id| ChannelId::parse(&id).ok());
            ids.map(|id| fact(ErasureScope::Channel(id))).collect()
        }
        _ => {
            let messages =
                all.archive.items().into_iter().filter_map(|item| channel_and_ts(&item)).collect::<Vec<_>>();
            let index = usize::try_from(world.random_below(messages.len() as u64)).unwrap_or_default();
            let one = messages.into_iter().nth(index);
            one.map(|(channel, ts)| fact(ErasureScope::Message(channel, ts))).into_iter().collect()
        }
    }
}

/// Returns the channel and timestamp of a message row.
fn channel_and_ts(item: &Item) -> Option<(ChannelId, Ts)> {
    let channel = item.key.item_id.strip_prefix(&format!("message#{TEAM}#"))?;
    Some((ChannelId::parse(channel).ok()?, Ts::parse(&item.key.timestamp).ok()?))
}

fn random_ts(world: &World) -> Ts {
    let micros = START_MICROS + i64::try_from(world.random_below(SPAN_MICROS)).unwrap_or_default();
    Ts::parse(&testkit::corpus::ts(micros)).unwrap_or_else(|_| rules::version::zero())
}

/// Erases, with retries until it succeeds: the erasing process may be killed at any step.
async fn erase(all: &SimulationState, facts: &[ErasureFact], ahead: &ErasedAhead) {
    let world = &all.world;
    loop {
        let last_step = if world.is_enabled(FaultKind::Killed) { 1 + world.random_below(60) } else { 0 };
        let life = Life::new("eraser".into(), last_step);
        let done = tokio::select! {
            biased;
            () = life.died() => false,
            erased = erase_once(all, &life, facts, ahead) => match erased {
                Ok(()) => true,
                Err(error) => { world.note("eraser", || error.to_string()); false }
            },
        };
        life.die();
        if done {
            return;
        }
        sleep(world.random_millis(50..5_000)).await;
    }
}

async fn erase_once(
    all: &SimulationState,
    life: &Arc<Life>,
    facts: &[ErasureFact],
    ahead: &ErasedAhead,
) -> Result<(), PortError> {
    let ProcessDependencies { ports, files, .. } = all.dependencies_for(life);
    let archive = &*ports.archive;
    let eraser = Eraser::begin(archive, &*files, facts.to_vec(), EraserMode::ActAgain).await?;
    let eraser = eraser.with_ahead(ahead.clone());
    if all.mutants.binds_writers() {
        for fact in facts {
            archive.write(&fact.update()).await?;
        }
    }
    for part in eraser.parts().await? {
        eraser.run_part(&part).await?;
    }
    Ok(())
}

/// Returns the jobs that left quarantine because they contained erased data: those of `key`, or all of them.
pub(super) fn erased_jobs(world: &World, archive: &MemoryArchive, key: Option<&ItemKey>) -> Vec<String> {
    let left: Vec<String> = {
        let left = lock(&world.left_quarantine);
        match key {
            Some(key) => left.get(key).into_iter().cloned().collect(),
            None => left.values().cloned().collect(),
        }
    };
    left.into_iter().filter(|body| is_erased(archive, body)).collect()
}

/// Whether a job contains erased data.
pub(super) fn is_erased(archive: &MemoryArchive, body: &str) -> bool {
    let stored = archive.items_with(rows::ERASURE.prefix());
    let facts: Vec<ErasureFact> = stored.iter().filter_map(ErasureFact::read).collect();
    let covered: ErasureFacts = facts.iter().collect();
    !facts.is_empty() && cover_of(body, &facts, &covered) != JobCover::Free
}

/// Jobs that were erased before a worker handled them. Their effects may be missing from the archive.
#[derive(Default)]
pub(super) struct ErasedJobs {
    bodies: Vec<String>,
    locations: BTreeSet<MessageLocation>,
    channels: BTreeSet<String>,
    /// The rows that they would have written.
    rows: BTreeSet<ItemKey>,
}

impl ErasedJobs {
    pub(super) fn collect(all: &SimulationState) -> Self {
        let bodies = erased_jobs(&all.world, &all.archive, None);
        let requests: Vec<Value> = bodies.iter().filter_map(|body| request(body)).collect();
        let locations = requests.iter().flat_map(|request| locations_of(&request["event"])).collect();
        let channels = requests.iter().flat_map(|request| {
            let event = &request["event"];
            let ids =
                ["old_channel_id", "new_channel_id"].map(|name| event[name].as_str().map(str::to_owned));
            ids.into_iter().flatten().chain(channel_of(event))
        });
        let channels = channels.collect();
        let updates = bodies.iter().filter_map(|body| updates_of(body)).flatten();
        let rows = updates.map(|update| update.key).collect();
        Self { bodies, locations, channels, rows }
    }

    /// Whether a job with this event id was erased.
    pub(super) fn contains_event(&self, name: &str) -> bool {
        self.bodies.iter().any(|body| event_id_in(body) == name)
    }

    /// Whether an erased job was about this message.
    pub(super) fn concerns(&self, channel: &str, ts: &str) -> bool {
        self.locations.contains(&(channel.to_owned(), ts.to_owned()))
    }

    /// Whether an erased job was about this row, or about the mark of a public channel, which each of the
    /// channel's events sets. An event of a user group names people, and is erased with any of them.
    pub(super) fn concerns_row(&self, key: &ItemKey) -> bool {
        location_of_row(key).is_some_and(|(channel, ts)| self.concerns(channel, ts))
            || is_public_mark(key) && self.channels.contains(&key.timestamp)
            || self.rows.contains(key)
            || key.item_id.starts_with("usergroup")
                && self.bodies.iter().any(|body| body.contains("subteam_"))
    }
}

/// Checks that no erased row is left, and no bytes of a file that only erased messages share.
pub(super) fn check_erasures(all: &SimulationState) {
    let facts: ErasureFacts = lock(&all.erasures).iter().collect();
    if facts.is_empty() {
        return;
    }
    for item in all.archive.items().iter().filter(|item| facts.covers_row(item)) {
        all.world.report_violation(Invariant::Erased, format!("{:?} is erased but still there", item.key));
    }
    let Ok(team) = TeamId::parse(TEAM) else { return };
    for text in all.archive.items().iter().filter(|item| item.key.item_id.starts_with("canvastext#")) {
        let file = ItemKey::new(format!("file#{TEAM}"), text.key.timestamp.clone());
        if all.archive.item(&file).is_none() {
            all.world.report_violation(Invariant::Erased, format!("{:?} has a text, but no file", text.key));
        }
    }
    for key in all.files.published().keys().filter(|key| !key.as_str().contains("/images/")) {
        let id = key.as_str().rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
        let file = all.archive.item(&ItemKey::new(format!("file#{TEAM}"), id));
        let is_shared = file.is_some_and(|file| {
            row::shares(&file).any(|share| {
                let message = all.archive.item(&ItemKey::message(&team, &share.channel, &share.ts));
                message.is_some_and(|message| !message.is_erased())
            })
        });
        if !is_shared {
            all.world.report_violation(
                Invariant::Erased,
                format!("{key} is stored, but only erased messages share it"),
            );
        }
    }
}

//! A person asks that something be forgotten: at any time, beside everything else that goes wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use ports::archive::{ArchiveExt, ErasureFact, ErasureFacts, ErasureScope, Item, ItemKey};
use rules::file::row;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, channel_id, user_id};
use testkit::memory::archive::MemoryArchive;
use tokio::time::sleep;
use workers::eraser::{Eraser, EraserError, EraserMode, JobCover, cover_of};

use super::fleet::{ProcessDependencies, Surroundings};
use super::ledger::name_of;
use super::model::ModelPlace;
use super::schedule::Life;
use super::unaccepted::{channel_of, place_of_row, places};
use super::verdict::{is_public_mark, request};
use super::workload::{START_MICROS, later_id};
use super::world::{FaultKind, Invariant, World, lock};

/// All that happens in a run, happens within this time, by Slack's clock.
const SPAN_MICROS: u64 = 200_000_000;

/// Erases something now and then, while the faults last.
pub(super) async fn happen(all: Arc<Surroundings>, channels: usize) {
    let world = &all.world;
    if !world.has(FaultKind::Erased) || !world.percent(50) {
        return;
    }
    for _ in 0..=world.below(3) {
        sleep(world.millis(500..150_000)).await;
        let facts = asked(&all, channels);
        if facts.is_empty() || !world.has_faults() {
            continue;
        }
        world.fault(FaultKind::Erased, "person", || format!("{facts:?}"));
        lock(&all.erasures).extend(facts.iter().cloned());
        erase(&all, &facts).await;
    }
}

/// What a person wants to have forgotten: a person, a channel under each of its ids, or a message that is there.
fn asked(all: &Surroundings, channels: usize) -> Vec<ErasureFact> {
    let world = &all.world;
    let Ok(team) = TeamId::parse(TEAM) else { return Vec::new() };
    let until = ts_of(world);
    let fact = |scope| ErasureFact { team: team.clone(), scope, until: until.clone() };
    match world.below(4) {
        0 | 1 => {
            let user = user_id(usize::try_from(world.below(3)).unwrap_or_default());
            UserId::parse(&user).map(|user| fact(ErasureScope::User(user))).into_iter().collect()
        }
        2 => {
            let id = channel_id(usize::try_from(world.below(channels as u64)).unwrap_or_default());
            let ids = [later_id(&id), id].into_iter().filter_map(|id| ChannelId::parse(&id).ok());
            ids.map(|id| fact(ErasureScope::Channel(id))).collect()
        }
        _ => {
            let messages =
                all.archive.items().into_iter().filter_map(|item| place_of(&item)).collect::<Vec<_>>();
            let at = usize::try_from(world.below(messages.len() as u64)).unwrap_or_default();
            let one = messages.into_iter().nth(at);
            one.map(|(channel, ts)| fact(ErasureScope::Message(channel, ts))).into_iter().collect()
        }
    }
}

/// The channel and the time of a message's row.
fn place_of(item: &Item) -> Option<(ChannelId, Ts)> {
    let channel = item.key.item_id.strip_prefix(&format!("message#{TEAM}#"))?;
    Some((ChannelId::parse(channel).ok()?, Ts::parse(&item.key.timestamp).ok()?))
}

fn ts_of(world: &World) -> Ts {
    let micros = START_MICROS + i64::try_from(world.below(SPAN_MICROS)).unwrap_or_default();
    Ts::parse(&testkit::corpus::ts(micros)).unwrap_or_else(|_| rules::version::zero())
}

/// Erases, again and again until it is done: who does it may be killed at any step.
async fn erase(all: &Surroundings, facts: &[ErasureFact]) {
    let world = &all.world;
    loop {
        let last_step = if world.has(FaultKind::Killed) { 1 + world.below(60) } else { 0 };
        let life = Life::new("eraser".into(), last_step);
        let done = tokio::select! {
            biased;
            () = life.died() => false,
            erased = once(all, &life, facts) => match erased {
                Ok(()) => true,
                Err(error) => { world.note("eraser", || error.to_string()); false }
            },
        };
        life.die();
        if done {
            return;
        }
        sleep(world.millis(50..5_000)).await;
    }
}

async fn once(all: &Surroundings, life: &Arc<Life>, facts: &[ErasureFact]) -> Result<(), EraserError> {
    let ProcessDependencies { ports, files, .. } = all.seen_by(life);
    let archive = &*ports.archive;
    let eraser = Eraser::begin(archive, &*files, facts.to_vec(), EraserMode::ActAgain).await?;
    if all.mutants.binds_writers() {
        for fact in facts {
            archive.write(&fact.update()).await?;
        }
    }
    for part in eraser.parts().await? {
        eraser.part(&part).await?;
    }
    Ok(())
}

/// The jobs of this key, or of any, that have left quarantine because they bring something erased.
pub(super) fn erased_jobs(world: &World, archive: &MemoryArchive, key: Option<&ItemKey>) -> Vec<String> {
    let is_wanted = |place: &ItemKey| key.is_none_or(|key| key == place);
    let left: Vec<String> = {
        let left = lock(&world.left_quarantine);
        left.iter().filter(|(place, _)| is_wanted(place)).map(|(_, body)| body.clone()).collect()
    };
    if left.is_empty() {
        return left;
    }
    let facts: Vec<ErasureFact> = archive.items().iter().filter_map(ErasureFact::read).collect();
    let covered: ErasureFacts = facts.iter().collect();
    left.into_iter().filter(|body| cover_of(body, &facts, &covered) != JobCover::Free).collect()
}

/// What was erased before it was done, and may be missing.
#[derive(Default)]
pub(super) struct ErasedJobs {
    bodies: Vec<String>,
    places: BTreeSet<ModelPlace>,
    channels: BTreeSet<String>,
}

impl ErasedJobs {
    pub(super) fn of(all: &Surroundings) -> Self {
        let bodies = erased_jobs(&all.world, &all.archive, None);
        let requests: Vec<Value> = bodies.iter().filter_map(|body| request(body)).collect();
        let places = requests.iter().flat_map(|request| places(&request["event"])).collect();
        let channels = requests.iter().filter_map(|request| channel_of(&request["event"])).collect();
        Self { bodies, places, channels }
    }

    /// Whether a job with the event of this name was erased.
    pub(super) fn has(&self, name: &str) -> bool {
        self.bodies.iter().any(|body| name_of(body) == name)
    }

    /// Whether what is said of a message was erased with a job, or some of it.
    pub(super) fn concerns(&self, channel: &str, ts: &str) -> bool {
        self.places.contains(&(channel.to_owned(), ts.to_owned()))
    }

    /// The same of a row: a message's, or one of its revisions; or the mark that a channel is public, which each of its events brings.
    pub(super) fn concerns_row(&self, key: &ItemKey) -> bool {
        place_of_row(key).is_some_and(|(channel, ts)| self.concerns(channel, ts))
            || is_public_mark(key) && self.channels.contains(&key.timestamp)
    }
}

/// In the end nothing that is erased is there, and no bytes of a file that only erased messages share.
pub(super) fn judge(all: &Surroundings) {
    let facts: ErasureFacts = lock(&all.erasures).iter().collect();
    if facts.is_empty() {
        return;
    }
    for item in all.archive.items().iter().filter(|item| facts.covers_row(item)) {
        all.world.broke(Invariant::Erased, format!("{:?} is erased and there", item.key));
    }
    let Ok(team) = TeamId::parse(TEAM) else { return };
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
            all.world.broke(Invariant::Erased, format!("{key} is held, and only erased messages share it"));
        }
    }
}

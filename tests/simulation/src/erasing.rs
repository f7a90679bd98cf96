//! A person asks that something be forgotten: at any time, beside everything else that goes wrong.

use std::sync::Arc;

use ports::archive::{ArchiveExt, ErasureFact, ErasureFacts, ErasureScope, Item, ItemKey};
use rules::file::row;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, channel_id, user_id};
use tokio::time::sleep;
use workers::eraser::{Eraser, EraserError, EraserMode, ErasurePart};

use super::fleet::{ProcessDependencies, Surroundings};
use super::schedule::Life;
use super::workload::{START_MICROS, later_id};
use super::world::{Invariant, Kind, World, lock};

/// All that happens in a run, happens within this time, by Slack's clock.
const SPAN_MICROS: u64 = 200_000_000;

/// Erases something now and then, while the faults last.
pub(super) async fn happen(all: Arc<Surroundings>, channels: usize) {
    let world = &all.world;
    if !world.has(Kind::Erased) || !world.percent(50) {
        return;
    }
    for _ in 0..=world.below(3) {
        sleep(world.millis(500..150_000)).await;
        let facts = asked(&all, channels);
        if facts.is_empty() || !world.has_faults() {
            continue;
        }
        world.fault(Kind::Erased, "person", || format!("{facts:?}"));
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
        let last_step = if world.has(Kind::Killed) { 1 + world.below(60) } else { 0 };
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
    // Jobs in quarantine stay: what is judged in the end is whether each of them is there or was done.
    for part in eraser.parts().await?.iter().filter(|part| **part != ErasurePart::Quarantine) {
        eraser.part(part).await?;
    }
    Ok(())
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

//! One seed from its beginning to its end.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ports::archive::ItemKey;
use slack::ids::{ChannelId, TeamId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::api::SlackTruth;
use super::fleet::Surroundings;
use super::ledger::Ledger;
use super::mutation::{Mutants, Mutation};
use super::questions::OwnPosts;
use super::sender::{Doors, SlackSender};
use super::world::{FaultCounts, Invariant, JumpyClock, World};
use super::{
    answers, erasing, faults, figures, gap_filling, history, operator, questions, reconciling, supervisor,
    verdict, workload,
};
use testkit::corpus::{TEAM, channel_id};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;

/// The faults last this long, which is beyond Slack's last retry.
const STORM: Duration = Duration::from_secs(560);

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// What a seed came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedOutcome {
    /// What happened.
    pub tally: FaultCounts,
    /// What was violated first, if anything was.
    pub finding: Option<Finding>,
    /// Every step, where that was asked for.
    pub trace: Vec<String>,
}

/// Runs a seed; `mutation` is a bug the fleet has on purpose.
///
/// # Panics
/// If there is no runtime to be had.
pub fn run(seed: u64, mutation: Option<Mutation>, traced: bool) -> SeedOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without input and output").block_on(async {
        let world = World::new(seed, traced);
        tokio::select! {
            biased;
            () = world.broken() => {}
            () = play(&world, mutation) => {}
        }
        let finding = world.violation().map(|(invariant, what)| Finding { invariant, what });
        SeedOutcome { tally: world.tally(), finding, trace: world.take_trace() }
    })
}

async fn play(world: &Arc<World>, mutation: Option<Mutation>) {
    let archive = Arc::new(MemoryArchive::new());
    let ledger = Ledger::new(world, &archive);
    let all = Arc::new(Surroundings {
        world: Arc::clone(world),
        ledger: Arc::clone(&ledger),
        archive,
        files: MemoryFiles::new(),
        existence: Arc::new(MemoryExistence::new()),
        claims: Arc::new(MemoryClaims::new(Arc::new(JumpyClock(Arc::clone(world))))),
        truth: Arc::new(SlackTruth::new()),
        mutants: Mutants::with(mutation),
        erasures: Mutex::default(),
        fills_at_once: world.percent(60),
        asks: world.percent(40),
        wishes: Mutex::default(),
    });
    let processes = 1 + usize::try_from(world.below(3)).unwrap_or_default();
    let doors = Arc::new(Doors::of(processes));
    let over = Arc::new(Semaphore::new(0));
    let mut supervisors = JoinSet::new();
    for place in 0..processes {
        let supervisor =
            supervisor::supervise(Arc::clone(&all), Arc::clone(&doors), place, Arc::clone(&over));
        supervisors.spawn(supervisor);
    }
    let channels = workload::channels(world);
    let mut planned = workload::plan(world, channels);
    let mut openers = workload::openers(channels);
    if all.asks {
        planned.extend(questions::plan(world));
        planned.sort_by_key(|planned| planned.at_ms);
        openers.extend(questions::openers());
    }
    let sender = SlackSender::new(world, &ledger, &doors, &all.truth);
    let mut own_posts = OwnPosts::new(&all, &sender);
    let injecting = tokio::spawn(faults::inject(Arc::clone(world), Arc::clone(&ledger)));
    tokio::join!(
        async {
            // A channel whose first message came would be dropped by rule or not, by what was done first.
            for opener in openers {
                sender.insist(&opener).await;
            }
            if all_known(&all, channels).await {
                sender.play(planned).await;
            }
        },
        async {
            sleep(STORM).await;
            world.calm_down();
        },
        erasing::happen(Arc::clone(&all), channels),
        own_posts.tell(),
        questions::look_after(&all),
    );
    ended(world, injecting.await.is_ok());
    operator::set_right(&all).await;
    own_posts.tell_the_rest().await;
    if all.fills_at_once {
        gap_filling::wait(&all).await;
        operator::until_idle(&all).await;
    }
    figures::judge(&all).await;
    over.close();
    while let Some(supervisor) = supervisors.join_next().await {
        ended(world, supervisor.is_ok());
    }
    verdict::judge(&all, channels).await;
    answers::judge(&all);
    if !all.fills_at_once {
        gap_filling::fill(&all, channels).await;
    }
    history::judge(&all, channels).await;
    reconciling::compare(&all, channels).await;
    erasing::judge(&all);
}

fn ended(world: &World, well: bool) {
    if !well {
        world.broke(Invariant::Bounded, "a part of the simulation panicked".into());
    }
}

/// Waits until every channel is known to be public; says whether that came to pass. Where the first message of one became
/// a dead letter, it waits for a person, and this run has no more events.
async fn all_known(all: &Surroundings, channels: usize) -> bool {
    let Ok(team) = TeamId::parse(TEAM) else { return false };
    for channel in (0..channels).filter_map(|n| ChannelId::parse(&channel_id(n)).ok()) {
        while all.archive.item(&ItemKey::public_mark(&team, &channel)).is_none() {
            if !all.world.has_faults() {
                return false;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
    while all.asks && !questions::is_known(all) {
        if !all.world.has_faults() {
            return false;
        }
        sleep(Duration::from_millis(500)).await;
    }
    true
}

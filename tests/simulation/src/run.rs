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
use super::fleet::SimulationState;
use super::ledger::Ledger;
use super::mutation::{Mutants, Mutation};
use super::questions::OwnPosts;
use super::sender::{OpenRouters, SlackSender};
use super::socket::SocketHost;
use super::world::{FaultCounts, Invariant, JumpyClock, Outage, World};
use super::{
    answers, bookmarks, erasing, faults, figures, gap_filling, history, late_channel, nights, operator,
    questions, reconciling, supervisor, verdict, workload,
};
use testkit::corpus::{TEAM, channel_id};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;

/// The duration of the faults. It is longer than Slack's last retry.
const FAULT_DURATION: Duration = Duration::from_secs(560);

/// The duration of most outages of Slack. One in four lasts for a weekend and the night before: after each quarter of
/// an hour, the rest of the three hours passes at once.
const OUTAGE_DURATION: Duration = Duration::from_secs(3_600);
const LONG_OUTAGE_TURNS: u32 = 24;
const LONG_OUTAGE_TURN: Duration = Duration::from_secs(900);
const PASSES_AT_ONCE: Duration = Duration::from_secs(3 * 3_600 - 900);

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub invariant: Invariant,
    /// A description of the violation.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedOutcome {
    /// The counts of faults, events and calls.
    pub tally: FaultCounts,
    /// The first violation, if any.
    pub finding: Option<Finding>,
    /// Every step, if the run was traced.
    pub trace: Vec<String>,
}

/// Runs a seed. `mutation` is a planted bug.
///
/// # Panics
/// If the tokio runtime cannot be built.
pub fn run(seed: u64, mutation: Option<Mutation>, traced: bool) -> SeedOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // The jitter and the runs of ingest's connections.
    fastrand::seed(seed);
    runtime.expect("a runtime without input and output").block_on(async {
        let world = World::new(seed, traced);
        tokio::select! {
            biased;
            () = world.wait_for_violation() => {}
            () = play(&world, mutation) => {}
        }
        let finding = world.violation().map(|(invariant, what)| Finding { invariant, what });
        SeedOutcome { tally: world.tally(), finding, trace: world.take_trace() }
    })
}

async fn play(world: &Arc<World>, mutation: Option<Mutation>) {
    let archive = Arc::new(MemoryArchive::new());
    let ledger = Ledger::new(world, &archive);
    let all = Arc::new(SimulationState {
        world: Arc::clone(world),
        ledger: Arc::clone(&ledger),
        archive,
        files: MemoryFiles::new(),
        existence: Arc::new(MemoryExistence::new()),
        claims: Arc::new(MemoryClaims::new(Arc::new(JumpyClock(Arc::clone(world))))),
        truth: Arc::new(SlackTruth::new()),
        workspaces: None,
        mutants: Mutants::with(mutation),
        socket: world.chance_percent(35).then(|| SocketHost::new(world)),
        erasures: Mutex::default(),
        fills_at_once: world.chance_percent(60),
        asks: world.chance_percent(40),
        last_requests: Mutex::default(),
    });
    let processes = 1 + usize::try_from(world.random_below(3)).unwrap_or_default();
    let doors = Arc::new(OpenRouters::for_processes(processes));
    let over = Arc::new(Semaphore::new(0));
    let mut supervisors = JoinSet::new();
    for index in 0..processes {
        let supervisor =
            supervisor::supervise(Arc::clone(&all), Arc::clone(&doors), index, Arc::clone(&over));
        supervisors.spawn(supervisor);
    }
    let outage = match world.random_below(40) {
        0 => Some(Outage::TokenRefused),
        1 => Some(Outage::Silent),
        _ => None,
    };
    let channels = workload::channels(world);
    let mut planned = workload::plan(world, channels);
    let mut openers = workload::openers(channels);
    if all.asks {
        planned.extend(questions::plan(world));
        planned.sort_by_key(|planned| planned.at_ms);
        openers.extend(questions::openers());
    }
    let sender = SlackSender::new(&all, &doors);
    let mut own_posts = OwnPosts::new(&all, &sender);
    let injecting = tokio::spawn(faults::inject(Arc::clone(world), Arc::clone(&ledger)));
    tokio::join!(
        async {
            // Events of a channel that is not known yet would be dropped or kept depending on the order of
            // the jobs.
            for opener in openers {
                sender.deliver_until_accepted(&opener).await;
            }
            if all_known(&all, channels).await {
                world.set_outage(outage);
                sender.send_all(planned).await;
            }
        },
        async {
            sleep(FAULT_DURATION).await;
            world.stop_faults();
        },
        erasing::erase_at_random(Arc::clone(&all), channels),
        own_posts.deliver_during_faults(),
        async {
            if let Some(host) = &all.socket {
                host.disturb().await;
            }
        },
        questions::cancel_and_ask_again(&all),
    );
    ended(world, injecting.await.is_ok());
    if world.outage().is_some() {
        late_channel::open(&all, &sender).await;
        let is_long = world.chance_percent(25);
        world.count(|tally| {
            tally.outages += 1;
            tally.long_outages += u64::from(is_long);
        });
        if is_long {
            for _ in 0..LONG_OUTAGE_TURNS {
                sleep(LONG_OUTAGE_TURN).await;
                world.skip(PASSES_AT_ONCE);
            }
        } else {
            sleep(OUTAGE_DURATION).await;
        }
        world.set_outage(None);
        operator::check_waiting(&all).await;
    }
    operator::repair(&all).await;
    own_posts.deliver_remaining().await;
    if all.fills_at_once {
        gap_filling::wait_until_filled(&all).await;
        operator::wait_until_idle(&all).await;
    }
    figures::check_figures(&all).await;
    over.close();
    while let Some(supervisor) = supervisors.join_next().await {
        ended(world, supervisor.is_ok());
    }
    verdict::check_archive(&all, channels).await;
    answers::check_answers(&all);
    if !all.fills_at_once {
        gap_filling::fill_gaps(&all, channels).await;
    }
    history::check_history(&all, channels).await;
    reconciling::compare(&all, channels).await;
    bookmarks::check_bookmarks(&all).await;
    nights::play(&all, channels).await;
    erasing::check_erasures(&all);
}

fn ended(world: &World, well: bool) {
    if !well {
        world.report_violation(Invariant::Bounded, "a part of the simulation panicked".into());
    }
}

/// Waits until every channel is known to be public, and returns whether that happened while the faults
/// lasted. If the first message of a channel became a dead letter, only the operator can replay it, and the
/// run has no more events.
async fn all_known(all: &SimulationState, channels: usize) -> bool {
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

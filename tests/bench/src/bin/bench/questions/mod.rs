//! Questions: the time from the event to the posted reply, the throughput of a fleet, and the slowdown of
//! messages.

mod counting_slack;
pub(crate) mod pace;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ::testkit::corpus::{Shape, TEAM, Workload, channel_id, event, user_id};
use ::tests::harness::binaries::binaries;
use ::tests::harness::client::{EventClient, RetryDelays};
use ::tests::harness::process::{self, Process};
use anyhow::{Context, ensure};
use embedded::Database;
use ports::archive::ArchiveExt;
use ports::clock::{Clock, SharedClock, SystemClock};
use ports::queue::QueueName;
use rules::directory::user_updates;
use rules::question::job::QuestionJob;
use rules::question::{Question, QuestionId, QuestionText};
use serde_json::json;
use serde_json::value::to_raw_value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use tokio::process::Command;

use self::counting_slack::CountingSlack;
use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, SortedTimes, figure, median, row};
use crate::{Settings, drain, machine, progress, slack as large_slack};

/// Number of questions for the fleet.
const QUESTIONS: usize = 10_000;
/// Number of channels of the questions.
const CHANNELS: usize = 200;

/// Number of processes of the fleet, half of them responders.
const PROCESSES: usize = 4;

/// Number of questions that are timed one by one.
const TIMED: usize = 200;

/// Number of people who ask.
const PEOPLE: usize = 50;

const APP: &str = "U0ANNALIST";

/// Settings that disable the budgets and Slack's pace, which are not measured.
const LIFTED: [(&str, &str); 6] = [
    ("ANNALIST_RESPONDER", "on"),
    ("ANNALIST_RESPONDER_PER_HOUR", "1000000"),
    ("ANNALIST_RESPONDER_PER_USER_HOUR", "1000000"),
    ("ANNALIST_REPLIES_PER_SECOND", "0"),
    ("ANNALIST_REPLIES_PER_MINUTE", "0"),
    ("SLACK_BOT_TOKEN", large_slack::TOKEN),
];

/// Measures latency, throughput and the cost for messages.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<BenchSection>> {
    Ok(vec![latency(settings).await?, throughput(settings).await?, message_cost(settings).await?])
}

/// Opens a database that contains the people.
async fn open_with_people(data: &Path) -> anyhow::Result<Database> {
    let clock: SharedClock = SystemClock::shared();
    let database = Database::open(data, clock)?;
    let archive = database.archive();
    let (team, clock) = (TeamId::parse(TEAM)?, Ts::parse("1600000000.000000")?);
    for n in 0..PEOPLE {
        let person = json!({ "id": user_id(n), "name": format!("user-{n}"), "team_id": TEAM });
        for update in user_updates(&team, &UserId::parse(&user_id(n))?, &to_raw_value(&person)?, &clock)? {
            archive.write(&update).await?;
        }
    }
    Ok(database)
}

fn configure(command: &mut Command, data: &Path, api: &CountingSlack) {
    command.arg("--data").arg(data).args(["--slack-api-url", &api.url]).envs(LIFTED);
    command.env("ANNALIST_PROCESSOR_URL", &api.processor);
}

/// Fills a folder with queued questions, spread over the channels in turn.
async fn queue_questions(data: &Path, questions: usize, channels: usize) -> anyhow::Result<()> {
    let database = open_with_people(data).await?;
    let jobs: Vec<_> = (0..questions).map(|n| question(n, channels)).collect::<anyhow::Result<_>>()?;
    for chunk in jobs.chunks(500) {
        let sent = database.queue().send(chunk.iter().map(QuestionJob::outgoing).collect()).await;
        sent.into_iter().collect::<Result<(), _>>()?;
    }
    database.close().await;
    Ok(())
}

/// Starts a fleet, half responders and half posters. `configure` sets their arguments.
async fn fleet(configure: impl Fn(&mut Command)) -> Vec<Process> {
    let mut processes = Vec::new();
    for n in 0..PROCESSES {
        let mut command = Command::new(binaries().worker(["responder", "poster"][n % 2]));
        configure(&mut command);
        processes.push(process::worker(&mut command).await);
    }
    processes
}

/// Waits until everything is answered, then ends the fleet. Returns the time of the last answer.
async fn end_when_answered(observer: &Observer, fleet: Vec<Process>) -> anyhow::Result<Instant> {
    for queue in [QueueName::Questions, QueueName::Replies] {
        observer.wait_until_drained(queue).await?;
    }
    let at = Instant::now();
    for process in fleet {
        process.sigkill().await;
    }
    Ok(at)
}

async fn latency(settings: &Settings) -> anyhow::Result<BenchSection> {
    let mut times = Vec::new();
    for round in 1..=settings.rounds {
        progress(&format!("questions: latency, round {round}"));
        let data = machine::data_folder()?;
        open_with_people(data.path()).await?.close().await;
        let api = CountingSlack::start().await?;
        let mut command = Command::new(&binaries().annalist);
        command.args(["up", "--listen", "127.0.0.1:0", "--existence-check", "off"]);
        configure(&mut command, data.path(), &api);
        let server = process::serve(&mut command).await;
        let mut sender = EventClient::for_address(server.address, RetryDelays::none());
        let now_s = SystemClock.now().seconds();
        for n in 0..TIMED {
            let ts = format!("{now_s}.{:06}", n + 1);
            let message = event::message(&ts, &user_id(n % PEOPLE), &format!("<@{APP}> question {n}?"));
            let body = event::envelope(
                TEAM,
                &format!("Ev{round}x{n}"),
                &event::posted(&channel_id(n % CHANNELS), &message),
            );
            let began = Instant::now();
            sender.deliver(&body).await.map_err(|error| anyhow::anyhow!("a question is refused: {error}"))?;
            let posted = api.wait_for_post(n + 1).await.context("no reply is posted")?;
            times.push(posted.duration_since(began));
        }
        server.process.sigkill().await;
    }
    let times = SortedTimes::from_unsorted(times);
    let [half, most, nearly_all] = [50, 95, 99].map(|percent| times.percentile(percent));
    Ok(BenchSection {
        title: "From a question to its reply",
        method: format!(
            "{TIMED} questions, one after the other, to `annalist up` with an instant processor behind HTTP and Slack's pace \
             lifted: from the request of the event to the request that posts the reply. All of {} rounds together.",
            settings.rounds
        ),
        columns: &["p50 ms", "p95 ms", "p99 ms"],
        rows: vec![[half, most, nearly_all].map(figure).to_vec()],
        goals: vec![
            Goal::at_most("half of the replies come within", half, 50.0, " ms"),
            Goal::at_most("95 % of them come within", most, 150.0, " ms"),
        ],
    })
}

async fn throughput(settings: &Settings) -> anyhow::Result<BenchSection> {
    let mut rates = Vec::new();
    for round in 1..=settings.rounds {
        progress(&format!("questions: {QUESTIONS} of them, round {round}"));
        let data = machine::data_folder()?;
        queue_questions(data.path(), QUESTIONS, CHANNELS).await?;
        let api = CountingSlack::start().await?;
        let observer = Observer::open(data.path())?;
        let began = Instant::now();
        let processes = fleet(|command| configure(command, data.path(), &api)).await;
        let elapsed = end_when_answered(&observer, processes).await?.duration_since(began);
        rates.push(QUESTIONS as f64 / elapsed.as_secs_f64());
        let (posted, distinct) = api.counts();
        ensure!((posted, distinct) == (QUESTIONS, QUESTIONS), "{posted} posts to {distinct} questions");
    }
    let rate = median(rates);
    Ok(BenchSection {
        title: "A fleet that answers",
        method: format!(
            "{QUESTIONS} questions of {PEOPLE} people in {CHANNELS} channels on the queue; then {PROCESSES} processes on one \
             folder, half of them responders and half posters, with an instant processor and Slack's pace lifted, timed until \
             both queues are empty. Each question had one reply. Median of {} rounds.",
            settings.rounds
        ),
        columns: &["replies/s"],
        rows: vec![vec![figure(rate)]],
        goals: vec![Goal::at_least("a fleet posts", rate, 100.0, " replies/s")],
    })
}

fn question(n: usize, channels: usize) -> anyhow::Result<QuestionJob> {
    let now_s = SystemClock.now().seconds();
    let ts = Ts::parse(&format!("{now_s}.{n:06}"))?;
    let id = QuestionId {
        team: TeamId::parse(TEAM)?,
        channel: ChannelId::parse(&channel_id(n % channels))?,
        thread_ts: ts.clone(),
        ts,
    };
    let asked = QuestionText {
        user: UserId::parse(&user_id(n % PEOPLE))?,
        text: format!("<@{APP}> question {n}?"),
        mentioned: Some(UserId::parse(APP)?),
        files: Vec::new(),
    };
    Ok(Question { id, content: asked }.into())
}

/// Drains a backlog of messages without a question with the responder on and off, in pairs of runs.
async fn message_cost(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress("questions: making requests");
    let mut pool = Pool::generate(&mut Workload::new(Shape::default()), settings.backlog)?;
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("questions: cost for messages, round {round}"));
        let modes = if round.is_multiple_of(2) { ["on", "off"] } else { ["off", "on"] };
        for mode in modes {
            Pool::sign_again(&mut pool);
            let rate = drain_rate(&pool, settings, mode).await?;
            if mode == "on" { on.push(rate) } else { off.push(rate) }
        }
    }
    let share = median(off.iter().zip(&on).map(|(off, on)| on / off).collect());
    Ok(BenchSection {
        title: "What the responder costs messages",
        method: format!(
            "{} events without a question queued with no worker; then one `message-writer`, timed until the queue is empty, with \
             the responder on and off. Medians of {} pairs; the goal is for the median of the pairs' ratios.",
            settings.backlog, settings.rounds
        ),
        columns: &["responder", "ev/s"],
        rows: vec![row("off", &[median(off)]), row("on", &[median(on)])],
        goals: vec![Goal::at_least("throughput with the responder", share, 0.98, " ×")],
    })
}

async fn drain_rate(pool: &Arc<Pool>, settings: &Settings, mode: &str) -> anyhow::Result<f64> {
    let data = machine::data_folder()?;
    drain::fill(data.path(), pool, settings).await?;
    let observer = Observer::open(data.path())?;
    let mut command = Command::new(binaries().worker("message-writer"));
    command.arg("--data").arg(data.path()).env("ANNALIST_RESPONDER", mode);
    let writer = process::worker(&mut command);
    Ok(observer.drain(QueueName::Events, pool.len(), writer).await?.per_second)
}

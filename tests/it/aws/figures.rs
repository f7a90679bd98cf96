//! Figures on AWS: a report computed from rows, from roll-ups, and a stored one each equal the report of a
//! data folder.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Query, key, query_all};
use ports::clock::{ManualClock, SystemClock};
use ports::queue::QueueName;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId};
use testkit::deliveries;
use testkit::memory::queue::MemoryQueue;
use tests::harness::command::json_lines;
use tests::harness::environment::ProgramEnvironment;
use workers::runtime::{JobOutcome, Ports, Worker};
use workers::statistician::Statistician;

use super::view::FolderAndFleet;
use crate::import::export::TEAM;

/// All messages of the export and of the events are from these two weeks.
const WEEKS: [&str; 2] = ["2020-W37", "2020-W38"];

/// The reports of an installation: for the workspace, for a channel, and for a person.
async fn reports(environment: &(impl ProgramEnvironment + ?Sized)) -> Vec<Value> {
    let mut reports = Vec::new();
    for week in WEEKS {
        for scope in [&[][..], &["--channel", "general"], &["--user", "U1"]] {
            let args = [&["report", "--week", week], scope].concat();
            let [report] = &json_lines(environment, &args).await[..] else {
                panic!("{args:?}: not one line")
            };
            reports.push(report.clone());
        }
    }
    reports
}

/// The figures of all channels, and of the messages of one channel.
async fn figures(environment: &(impl ProgramEnvironment + ?Sized)) -> Vec<Value> {
    let mut figures = json_lines(environment, &["channels", "--figures"]).await;
    for mut message in json_lines(environment, &["messages", "general", "--figures"]).await {
        // Backends store files in different locations.
        message["files_s3"].take();
        figures.push(message);
    }
    figures
}

/// Whether each report was cached, and the reports without that flag.
fn without_cached(mut reports: Vec<Value>) -> (Vec<bool>, Vec<Value>) {
    let cached = reports.iter_mut().map(|report| report["cached"].take() == json!(true)).collect();
    (cached, reports)
}

/// Longer than followers re-read change marks: for two hours of the clock, and the hour before.
const MARKS_ARE_OLD: Duration = Duration::from_secs(4 * 3_600);

/// Runs the statistician once, and its jobs. The jobs are in memory, so that their delay passes at once.
async fn look_and_count(statistician: &Statistician, queue: &MemoryQueue, clock: &ManualClock) {
    statistician.poll().await;
    clock.advance(MARKS_ARE_OLD);
    deliveries::drain(queue, QueueName::Stats, async |jobs| {
        let outcomes = statistician.handle(jobs).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
        vec![true; jobs.len()]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_from_a_fleet_equals_one_from_one_machine() {
    let both = FolderAndFleet::filled().await;
    let (data, installation) = (both.data(), &both.installation);
    let (of_folder, of_fleet) = (reports(&*data).await, reports(installation).await);
    assert!(of_folder[0]["figures"]["messages"]["value"].as_u64() > Some(0), "{}", of_folder[0]);
    assert_eq!(of_folder, of_fleet);
    let (of_folder_rows, of_fleet_rows) = (figures(&*data).await, figures(installation).await);
    for (here, there) in of_folder_rows.iter().zip(&of_fleet_rows) {
        assert_eq!(here, there);
    }
    assert_eq!(of_folder_rows.len(), of_fleet_rows.len());

    let archive = installation.aws.archive();
    let clock = ManualClock::starting_at(SystemClock::shared().now());
    let queue = Arc::new(MemoryQueue::new(clock.clone()));
    let ports = Ports { queue: queue.clone(), archive: archive.clone(), clock: clock.clone() };
    let statistician = Statistician::new(ports, installation.aws.changes(clock.clone()));
    let team = TeamId::parse(TEAM).unwrap();
    let days = key::rollups(&team, &ChannelId::parse("C1").unwrap());
    // The first round finds every channel, the second one recent changes, and the third one nothing.
    for _ in 0..3 {
        look_and_count(&statistician, &queue, &clock).await;
    }
    assert!(!query_all(&*archive, Query::partition(days)).await.unwrap().is_empty(), "days were counted");
    assert!(query_all(&*archive, Query::partition(key::rollups_due(&team))).await.unwrap().is_empty());

    let (cached, counted) = without_cached(reports(installation).await);
    assert_eq!(cached, [false; 6], "no report was stored before days were counted");
    let (cached, stored) = without_cached(reports(installation).await);
    // Roll-ups do not contain a person's interactions with others: reports about a person are computed each
    // time.
    assert_eq!(cached, [true, true, false].repeat(WEEKS.len()));
    let (_, from_rows) = without_cached(of_folder);
    assert_eq!(from_rows, counted);
    assert_eq!(counted, stored);
}

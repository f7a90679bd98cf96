//! Workers as containers on Fargate.

use std::time::Duration;

use serde_json::json;
use testkit::corpus::TEAM;
use tests::harness::client;
use tests::harness::environment::AwsInstallation;
use tests::harness::process;

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_on_fargate_writes_the_metrics_of_the_alarms_to_its_log() {
    let installation = AwsInstallation::new().await;
    let on_fargate = installation.with_variable("AWS_EXECUTION_ENV", Some("AWS_ECS_FARGATE"));
    let (ingest, writer) = (process::ingest(&installation).await, process::message_writer(&on_fargate).await);
    let odd = json!({ "type": "message", "channel": "../C01#", "channel_type": "channel", "text": "?" });
    client::deliver(ingest.address, TEAM, &[odd]).await;
    writer.wait_for_log("quarantined", DEADLINE).await;
    ingest.process.stop().await;
    writer.stop_after_output("\"annalist_quarantined_total\":1").await;
}

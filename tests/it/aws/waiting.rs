//! Waiting jobs on AWS, with a queue whose messages become dead letters after three receives: waiting costs none.

use aws_sdk_sqs::types::QueueAttributeName;
use ports::queue::{QueueName, QueueRef};
use tests::harness::environment::AwsInstallation;
use tests::harness::stack::Stack;

use crate::waiting::{begin_outage, end_outage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_jobs_and_their_wakes_become_no_dead_letters_after_three_receives_and_go_on() {
    let installation = AwsInstallation::new().await;
    let sqs = Stack::shared().sqs().await;
    let names = installation.aws.names();
    let url = sqs.get_queue_url().queue_name(names.queue(QueueName::Events.into())).send().await.unwrap();
    let url = url.queue_url().unwrap();
    let redrive = QueueAttributeName::RedrivePolicy;
    let read =
        sqs.get_queue_attributes().queue_url(url).attribute_names(redrive.clone()).send().await.unwrap();
    let policy = &read.attributes().unwrap()[&redrive];
    let mut policy: serde_json::Value = serde_json::from_str(policy).unwrap();
    policy["maxReceiveCount"] = 3.into();
    sqs.set_queue_attributes().queue_url(url).attributes(redrive, policy.to_string()).send().await.unwrap();

    let (environment, server) = begin_outage(&installation).await;
    end_outage(&environment).await;
    server.process.stop().await;
    let dead = installation.aws.queue().depth(QueueRef::dead_letters(QueueName::Events)).await.unwrap();
    assert!(dead.is_empty(), "{dead:?}");
}

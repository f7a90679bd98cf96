//! `annalist provision` as users run it, and the folder `localstack`, with which they try the fleet out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ports::queue::QueueName;
use ports::queue::topology::{QUEUES, TABLES};
use tests::harness::command::annalist_with;
use tests::harness::stack::{LOCALSTACK_TAG, Stack, fresh_names};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../localstack")
}

#[test]
fn users_try_out_the_emulator_that_the_tests_use() {
    let compose = std::fs::read_to_string(folder().join("compose.yaml")).unwrap();
    let images: Vec<&str> = compose.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
    assert_eq!(images, [format!("localstack/localstack:{LOCALSTACK_TAG}")]);
    // It must only listen locally, because it checks no credentials.
    let ports: Vec<&str> = compose.lines().filter(|line| line.contains(":4566\"")).collect();
    assert!(ports.len() == 1 && ports[0].contains("- \"127.0.0.1:4566:4566\""), "{compose}");
}

#[test]
fn the_settings_select_the_emulator_whatever_the_shell_has_set() {
    let output = Command::new("sh")
        .args(["-c", ". ./env && env"])
        .current_dir(folder())
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("AWS_PROFILE", "work"), ("AWS_SESSION_TOKEN", "real")])
        .envs([("ANNALIST_TABLE", "real"), ("AWS_ENDPOINT_URL_S3", "https://s3.example.com")])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let set: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    assert_eq!((set["ANNALIST_BACKEND"], set["AWS_ENDPOINT_URL"]), ("aws", "http://127.0.0.1:4566"));
    // The settings that a process needs, except names with a default.
    for (name, _) in Stack::shared().environment(&fresh_names()) {
        let has_default = name == "ANNALIST_PREFIX" || name.ends_with("TABLE");
        assert_eq!(set.contains_key(name), !has_default, "{name}");
    }
    assert!(set.contains_key("SLACK_SIGNING_SECRET"));
    for real in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"] {
        assert!(!set.contains_key(real), "{real}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn provision_prints_each_step_and_needs_no_other_setting() {
    let (stack, names) = (Stack::shared(), fresh_names());
    let mut variables = stack.environment(&names);
    variables.retain(|(name, _)| *name != "ANNALIST_BACKEND");
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let lines = async |args: &[&str]| -> Vec<String> {
        let outcome = annalist_with(args, &variables).await;
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        outcome.stdout.lines().map(str::to_owned).collect()
    };
    let events = names.queue(QueueName::Events.into());
    // With the bucket.
    let all = QUEUES.len() * 2 + TABLES.len() + 1;
    for (args, does, summary) in [
        (&["provision", "--dry-run"][..], "would create", format!("{all} to create, 0 unchanged")),
        (&["provision"][..], "created  ", format!("{all} created, 0 unchanged")),
        (&["provision"][..], "unchanged", format!("0 created, {all} unchanged")),
    ] {
        let lines = lines(args).await;
        assert_eq!(lines.len(), all + 1, "{lines:?}");
        assert!(lines[..all].iter().all(|line| line.starts_with(does)), "{lines:?}");
        assert!(lines.contains(&format!("{does} queue {events}")), "{lines:?}");
        assert!(lines[all].contains(&summary) && lines[all].contains("eu-central-1"), "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_of_another_owner_are_one_line_and_exit_code_1() {
    let (stack, names) = (Stack::shared(), fresh_names());
    let variables = stack.environment(&names);
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let queue = names.queue(QueueName::Files.into());
    let made = stack.sqs().await.create_queue().queue_name(&queue);
    made.attributes(aws_sdk_sqs::types::QueueAttributeName::FifoQueue, "true").send().await.unwrap();
    let outcome = annalist_with(&["provision"], &variables).await;
    for expected in [queue.as_str(), "nothing was changed", "ANNALIST_PREFIX"] {
        outcome.assert_refused(1, expected);
    }
}

#[tokio::test]
async fn without_a_bucket_or_a_region_provision_names_the_setting() {
    let bucket = annalist_with(&["provision"], &[("AWS_REGION", "eu-central-1")]).await;
    assert!(bucket.code == Some(2) && bucket.stderr.contains("ANNALIST_BUCKET"), "{bucket:?}");
    let nowhere = [("ANNALIST_BUCKET", "bucket"), ("AWS_EC2_METADATA_DISABLED", "true")];
    let region = annalist_with(&["provision"], &nowhere).await;
    assert!(region.code == Some(1) && region.stderr.contains("AWS_REGION"), "{region:?}");
}

//! `annalist provision` as users run it, and the folder `localstack`, with which they try the fleet out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use aws::Aws;
use aws::provision::{Parts, ProvisionStep, ResourceChange, TAG, provision};
use aws_resources::names::Names;
use ports::queue::topology::{QUEUES, TABLES};
use ports::queue::{QueueName, QueueRef};
use serde_json::{Value, json};
use tests::harness::command::annalist_with;
use tests::harness::proxy::{ForwardedRequest, Proxy};
use tests::harness::stack::{LOCALSTACK_TAG, REGION, Stack, fresh_names, s3_client};

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
        (
            &["provision", "--dry-run"][..],
            "would create",
            format!("{all} to create, 0 to update, 0 unchanged"),
        ),
        (&["provision"][..], "created  ", format!("{all} created, 0 updated, 0 unchanged")),
        (&["provision"][..], "unchanged", format!("0 created, 0 updated, {all} unchanged")),
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

/// The calls that change something, in the order of the topology and in the format that `provision.py` reads.
fn calls(passed: Vec<ForwardedRequest>, names: &Names) -> String {
    let order = |call: &Value| {
        let body = call["body"].to_string();
        let queues = QUEUES.iter().flat_map(|spec| [QueueRef::dead_letters(spec.name), spec.name.into()]);
        let queues = queues.map(|queue| format!("\"QueueName\":\"{}\"", names.queue(queue)));
        let tables = TABLES.iter().map(|spec| format!("\"TableName\":\"{}\"", names.table(spec.role)));
        let index = queues.chain(tables).position(|name| body.contains(&name));
        index.unwrap_or(usize::MAX)
    };
    let changes = |passed: &ForwardedRequest| {
        let target = passed.target.as_deref().unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        (target.is_empty() && passed.method == "PUT")
            || ["Create", "Set", "Update", "Tag"].iter().any(|verb| operation.starts_with(verb))
    };
    let mut calls: Vec<Value> = passed.into_iter().filter(changes).map(call).collect();
    calls.sort_by_key(order);
    // A store that does not support tags in CreateBucket gets them in a separate call, which changes nothing
    // on others. List that call last whether or not this store received it.
    calls.retain(|call| !call["path"].as_str().is_some_and(|path| path.ends_with("?tagging")));
    let tagging = format!(
        "<Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet><Tag><Key>{TAG}</Key><Value>{}</Value></Tag>\
         </TagSet></Tagging>",
        names.prefix()
    );
    calls.push(call(ForwardedRequest {
        method: "PUT".into(),
        path: format!("/{}/?tagging", names.bucket()),
        target: None,
        content_type: "application/xml".into(),
        body: tagging,
    }));
    calls.iter().map(|call| format!("{call}\n")).collect()
}

fn call(passed: ForwardedRequest) -> Value {
    let ForwardedRequest { method, path, target, content_type, body } = passed;
    let service = match target.as_deref() {
        Some(target) if target.starts_with("AmazonSQS") => "sqs",
        Some(_) => "dynamodb",
        None => "s3",
    };
    // JSON objects have no order: parse the body to sort its keys.
    let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
    // `x-id` only identifies the operation for the SDK.
    let path = path.split("x-id=").next().unwrap_or_default().trim_end_matches(['?', '&']).to_owned();
    json!({
        "service": service, "region": "eu-central-1", "method": method, "path": path, "target": target,
        "content_type": content_type, "body": body,
    })
}

/// The names that result from `localstack/env`.
fn default_names() -> Names {
    Names::new("annalist", [None; 3], "annalist-files").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_init_hook_creates_the_resources_of_provision() {
    let stack = Stack::shared();
    // In another region, since the hook's names are used below.
    let elsewhere = "eu-west-1";
    let proxy = Proxy::in_front_of(stack.endpoint(), 0).await;
    proxy.record();
    let sdk = stack.sdk_in(&proxy.endpoint, elsewhere).await;
    provision(&Aws::from_sdk_config(sdk, default_names()).unwrap(), Parts::ALL, false, &mut |_| {})
        .await
        .unwrap();
    let expected_calls = calls(proxy.recorded(), &default_names()).replace(elsewhere, REGION);
    // A bucket's name is taken in every region.
    let sdk = stack.sdk_in(stack.endpoint(), elsewhere).await;
    s3_client(&sdk).delete_bucket().bucket(default_names().bucket()).send().await.unwrap();

    let init = folder().join("init");
    let requests = std::fs::read_to_string(init.join("requests.jsonl")).unwrap_or_default();
    // A stack that blocks public access to new buckets by default, as AWS does, gets no call for that.
    let closes = |line: &str| line.contains("/?publicAccessBlock");
    let is_expected = |line: &&str| !closes(line) || expected_calls.lines().any(closes);
    let comparable: String = requests.lines().filter(is_expected).map(|line| format!("{line}\n")).collect();
    assert!(
        comparable == expected_calls,
        "localstack/init/requests.jsonl should be, made from the code:\n{expected_calls}"
    );

    let hook = Command::new("python3").arg(init.join("provision.py")).arg(stack.endpoint()).output().unwrap();
    assert!(hook.status.success(), "{}", String::from_utf8_lossy(&hook.stderr));
    let aws = stack.aws_at(stack.endpoint(), default_names()).await;
    let mut changed = Vec::new();
    let mut note = |step: &ProvisionStep| {
        if step.change != ResourceChange::Keep {
            changed.push(step.to_string());
        }
    };
    provision(&aws, Parts::ALL, false, &mut note).await.unwrap();
    assert_eq!(changed, Vec::<String>::new());
}

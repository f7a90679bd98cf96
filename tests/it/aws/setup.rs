//! Wrong settings: each part names the setting in one line and does not start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::workers::{Uses, WORKERS};
use tests::harness::binaries::binaries;
use tests::harness::command::{CommandOutput, run};
use tests::harness::environment::AwsInstallation;
use tests::harness::process::SIGNING_SECRET;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

async fn started(program: &Path, installation: &AwsInstallation) -> CommandOutput {
    let mut variables = installation.environment();
    variables.extend([
        ("SLACK_SIGNING_SECRET", SIGNING_SECRET),
        ("ANNALIST_METRICS_LISTEN", "127.0.0.1:0"),
        // The workers that answer questions start only with this setting.
        ("ANNALIST_RESPONDER", "on"),
    ]);
    let args: &[&str] = match program.file_name().and_then(|name| name.to_str()) {
        Some("ingest") => &["--listen", "127.0.0.1:0"],
        Some("annalist") => &["up", "--listen", "127.0.0.1:0"],
        _ => &[],
    };
    run(program, args, &variables).await
}

fn parts() -> Vec<PathBuf> {
    let workers = WORKERS.iter().map(|worker| binaries().worker(worker.name));
    [binaries().ingest.clone()].into_iter().chain(workers).chain([binaries().annalist.clone()]).collect()
}

/// Asserts that a program ended with this code and, apart from its log, one line that contains all of these.
fn assert_refused(outcome: &CommandOutput, code: i32, expected: &[&str]) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{outcome:?}");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with('{')).collect();
    let [line] = lines[..] else { panic!("not one line: {outcome:?}") };
    for part in expected {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    assert!(!outcome.stderr.contains("\"message\":\"listening\""), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_setting_is_named_and_nothing_starts() {
    let whole = AwsInstallation::new().await;
    for part in &parts() {
        let without = |name| whole.with_variable(name, None);
        assert_refused(&started(part, &without("ANNALIST_BUCKET")).await, 2, &["ANNALIST_BUCKET"]);
        assert_refused(
            &started(part, &whole.with_variable("ANNALIST_PREFIX", Some("a b"))).await,
            2,
            &["ANNALIST_PREFIX", "a b"],
        );
        assert_refused(&started(part, &without("AWS_REGION")).await, 1, &["AWS_REGION"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_named_and_nothing_starts() {
    let whole = AwsInstallation::new().await;
    let without = whole
        .with_variable("AWS_ACCESS_KEY_ID", None)
        .with_variable("AWS_SECRET_ACCESS_KEY", None)
        // Otherwise the SDK queries the instance metadata service, which is slow.
        .with_variable("AWS_EC2_METADATA_DISABLED", Some("true"));
    for part in &parts() {
        assert_refused(
            &started(part, &without).await,
            1,
            &["credentials", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"],
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_resource_is_named_and_nothing_starts() {
    let whole = AwsInstallation::new().await;
    let elsewhere = whole.with_variable("AWS_REGION", Some("eu-west-3"));
    for part in &parts() {
        let queue = started(part, &whole.with_variable("ANNALIST_PREFIX", Some("missing"))).await;
        assert_refused(&queue, 1, &["queue missing-", "annalist provision", "ANNALIST_PREFIX"]);
        assert_refused(&started(part, &elsewhere).await, 1, &["eu-west-3", "AWS_REGION"]);
    }
    // Ingest uses no table and no bucket.
    for part in &parts()[1..] {
        let table = started(part, &whole.with_variable("ANNALIST_TABLE", Some("missing"))).await;
        assert_refused(&table, 1, &["table missing", "annalist provision", "ANNALIST_TABLE"]);
        let bucket = started(part, &whole.with_variable("ANNALIST_BUCKET", Some("missing"))).await;
        assert_refused(&bucket, 1, &["bucket missing", "ANNALIST_BUCKET"]);
    }
    let claiming = WORKERS.iter().filter(|worker| worker.may_use(Uses::Claims));
    let claiming = claiming.map(|worker| binaries().worker(worker.name)).chain([binaries().annalist.clone()]);
    for part in claiming {
        let claims = started(&part, &whole.with_variable("ANNALIST_CLAIMS_TABLE", Some("missing"))).await;
        assert_refused(&claims, 1, &["table missing", "annalist provision", "ANNALIST_CLAIMS_TABLE"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_are_named_and_nothing_starts() {
    let whole = AwsInstallation::new().await;
    let aws = MockServer::start().await;
    let refusal = "{\"__type\":\"com.amazon.coral.service#InvalidClientTokenId\",\"message\":\"The security token included in the request is invalid.\"}";
    let refused = ResponseTemplate::new(403).set_body_raw(refusal, "application/x-amz-json-1.0");
    Mock::given(any()).respond_with(refused).mount(&aws).await;
    for part in &parts() {
        let outcome = started(part, &whole.with_endpoint(&aws.uri())).await;
        assert_refused(&outcome, 1, &["refused the credentials", "AWS_SECRET_ACCESS_KEY"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_a_server_is_named_and_nothing_starts() {
    let whole = AwsInstallation::new().await;
    for part in &parts() {
        let unreachable = whole.with_variable("AWS_ENDPOINT_URL", Some("http://127.0.0.1:9"));
        let outcome =
            tokio::time::timeout(Duration::from_secs(30), started(part, &unreachable)).await.unwrap();
        assert_refused(&outcome, 1, &["cannot reach", "AWS_ENDPOINT_URL"]);
    }
}

//! Secrets that the configuration refers to by ARN.

use aws_sdk_secretsmanager::Client;
use tests::harness::binaries::binaries;
use tests::harness::command::run;
use tests::harness::environment::AwsInstallation;
use tests::harness::lambda::RunningFunction;
use tests::harness::process::SIGNING_SECRET;
use tests::harness::stack::Stack;

use super::{answer, signed_with};

const OLD: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210";
const CHALLENGE: &str = r#"{"challenge":"abc","type":"url_verification"}"#;

async fn secret(text: &str) -> String {
    let stack = Stack::shared();
    let client = Client::new(&stack.sdk(stack.endpoint()).await);
    let name = format!("annalist-{:08x}", fastrand::u32(..));
    let made = client.create_secret().name(name).secret_string(text).send().await.unwrap();
    made.arn.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signing_secret_is_read_by_its_arn_and_two_are_valid_during_rotation() {
    let arn = secret(&format!("{OLD},{NEW}")).await;
    let installation = AwsInstallation::new().await.with_variable("SLACK_SIGNING_SECRET_ARN", Some(&arn));
    let ingest = RunningFunction::start(&binaries().ingest, &installation).await;
    for (secret, status) in [(OLD, 200), (NEW, 200), (SIGNING_SECRET, 401)] {
        assert_eq!(answer(&ingest, &signed_with(secret, CHALLENGE)).await.status, status, "{secret}");
    }
    for text in [ingest.process.log(), ingest.process.output()] {
        assert!(!text.contains(OLD) && !text.contains(NEW), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_may_be_an_object_of_apps_each_with_its_path() {
    let arn = secret(&format!(r#"{{"A01": "{OLD}", "A02": ["{NEW}", "{OLD}"]}}"#)).await;
    let installation = AwsInstallation::new().await.with_variable("SLACK_SIGNING_SECRET_ARN", Some(&arn));
    let ingest = RunningFunction::start(&binaries().ingest, &installation).await;
    for (path, secret, status) in [
        ("/slack/events/A01", OLD, 200),
        ("/slack/events/A01", NEW, 401),
        ("/slack/events/A02", OLD, 200),
        ("/slack/events/A02", NEW, 200),
        ("/slack/events/A03", OLD, 401),
        ("/slack/events", OLD, 401),
    ] {
        let request = signed_with(secret, CHALLENGE).to_path(path);
        assert_eq!(answer(&ingest, &request).await.status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_read_ends_the_start_with_one_line() {
    let missing = "arn:aws:secretsmanager:eu-central-1:000000000000:secret:nowhere-AbCdEf";
    let empty = secret(",").await;
    let installation = AwsInstallation::new().await;
    for (variables, expected) in [
        (vec![("SLACK_SIGNING_SECRET_ARN", missing)], "secretsmanager:GetSecretValue"),
        (vec![("SLACK_SIGNING_SECRET_ARN", empty.as_str())], "SLACK_SIGNING_SECRET_ARN cannot be used"),
        (
            vec![("SLACK_SIGNING_SECRET_ARN", missing), ("SLACK_SIGNING_SECRET", SIGNING_SECRET)],
            "both set: keep one",
        ),
        // A function keeps no connection open, so nothing can be in its place.
        (vec![("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9")], "SigningSecretArn"),
    ] {
        let variables = [installation.environment(), variables].concat();
        let outcome = run(&binaries().ingest, &["--listen", "127.0.0.1:0"], &variables).await;
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
        assert!(
            outcome.stderr.contains(expected) && !outcome.stderr.contains("SLACK_APP_TOKEN"),
            "{outcome:?}"
        );
    }
}

//! The settings file, on the real binaries.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use testkit::fake_slack::{FakeSlack, FakeWorkspace};
use tests::harness::binaries::binaries;
use tests::harness::command::{annalist_with, run};
use tests::harness::process;

const TOKEN: &str = "xoxb-1-hidden";
const DEADLINE: Duration = Duration::from_secs(30);

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A data folder with an archive, and a Slack with one workspace.
async fn archive(folder: &Path) -> (std::path::PathBuf, FakeSlack) {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, FakeWorkspace::half_joined("T1"));
    let data = folder.join("data");
    embedded::Database::open(&data, ports::clock::SystemClock::shared()).unwrap().close().await;
    (data, slack)
}

#[tokio::test]
async fn a_command_reads_the_file_of_its_data_folder_after_the_environment_and_a_named_file_instead() {
    let folder = tempfile::tempdir().unwrap();
    let (data, slack) = archive(folder.path()).await;
    let file = data.join("annalist.env");
    write(&file, &format!("SLACK_BOT_TOKEN='{TOKEN}'\nSLACK_API_URL={}\nOTHER=1\n", slack.url()), 0o600);
    let data_text = data.to_str().unwrap();
    let sync = ["sync", "--no-join", "--data", data_text];
    for variables in [&[][..], &[("SLACK_BOT_TOKEN", " "), ("ANNALIST_SETTINGS", "")]] {
        let outcome = annalist_with(&sync, variables).await.succeeded();
        assert!(outcome.stdout.contains("T1 (Workspace T1)"), "{outcome:?}");
    }
    let other = annalist_with(&sync, &[("SLACK_BOT_TOKEN", "xoxb-2-hidden")]).await;
    assert!(other.stderr.contains("invalid_auth"), "the variable goes first: {other:?}");

    // A named file replaces that of the folder, and must exist.
    let named = folder.path().join("named.env");
    let named_text = named.to_str().unwrap();
    let with_named = [&sync[..], &["--settings", named_text]].concat();
    annalist_with(&with_named, &[]).await.assert_refused(2, named_text);
    annalist_with(&sync, &[("ANNALIST_SETTINGS", named_text)]).await.assert_refused(2, named_text);
    write(&named, "ANNALIST_LOG=info\n", 0o600);
    annalist_with(&with_named, &[]).await.assert_refused(1, "SLACK_BOT_TOKEN");
    annalist_with(&["sync", "--backend", "aws", "--settings", named_text], &[])
        .await
        .assert_refused(2, "ANNALIST_BUCKET");
    for command in ["provision", "cloudformation"] {
        let with_named = [command, "--settings", named_text];
        annalist_with(&with_named, &[]).await.assert_refused(2, "ANNALIST_BUCKET");
    }
    write(&named, "ANNALIST_BUCKET=acme-slack\n", 0o600);
    let template = annalist_with(&["cloudformation"], &[("ANNALIST_SETTINGS", named_text)]).await.succeeded();
    assert!(template.stdout.contains("\"acme-slack\""), "{}", template.stdout);
}

#[tokio::test]
async fn every_program_and_command_reports_a_wrong_line_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _slack) = archive(folder.path()).await;
    let data = data.to_str().unwrap();
    let file = format!("{data}/annalist.env");
    write(Path::new(&file), "# a comment\nSLACK_BOT_TOKNE=xoxb-1-hidden\n", 0o600);
    let expected = format!("{file}:2: there is no setting SLACK_BOT_TOKNE: the nearest is SLACK_BOT_TOKEN");
    let backup = format!("{data}/../b.tar");
    for command in [
        &["up"][..],
        &["messages", "C1"],
        &["channels"],
        &["files"],
        &["files", "retry"],
        &["users"],
        &["search", "word"],
        &["index"],
        &["view"],
        &["mcp"],
        &["gaps"],
        &["coverage"],
        &["report"],
        &["sync"],
        &["import", "export.zip"],
        &["export", "--format", "jsonl", "--out", "x"],
        &["backfill", "--all"],
        &["reconcile"],
        &["status"],
        &["doctor"],
        &["quarantine", "list"],
        &["questions", "list"],
        &["erase", "--user", "U1"],
        &["backup", &backup],
    ] {
        let args = [command, &["--data", data]].concat();
        annalist_with(&args, &[]).await.assert_refused(2, &expected);
    }
    for program in [binaries().ingest.clone(), binaries().worker("message-writer")] {
        run(&program, &["--data", data], &[]).await.assert_refused(2, &expected);
    }
    write(Path::new(&file), "ANNALIST_LISTEN=hidden", 0o600);
    let value = annalist_with(&["up", "--data", data], &[]).await;
    value.assert_refused(2, "ANNALIST_LISTEN in ");
    assert!(!value.stderr.contains("hidden"), "{value:?}");
    // A setting that a command does not have is no mistake.
    annalist_with(&["status", "--data", data], &[]).await.succeeded();
    annalist_with(&["up", "--data", data, "--listen", "127.0.0.1:0"], &[])
        .await
        .assert_refused(2, "SLACK_SIGNING_SECRET");
}

#[tokio::test]
async fn up_warns_of_a_file_that_others_can_read_and_doctor_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("annalist.env");
    write(&file, "ANNALIST_PROCESSOR_TOKEN=hidden\n", 0o644);
    let up = process::up(folder.path()).await;
    up.process.wait_for_log("chmod 600", DEADLINE).await;
    assert!(!up.process.log().contains("hidden"));
    up.process.stop().await;
    let data = folder.path().to_str().unwrap();
    let doctor = ["doctor", "--data", data];
    let outcome = annalist_with(&doctor, &[]).await;
    assert!(outcome.stdout.starts_with("finding  settings "), "{outcome:?}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let outcome = annalist_with(&doctor, &[]).await;
    let expected =
        format!("ok       settings        from {}: ANNALIST_PROCESSOR_TOKEN; nothing", file.display());
    assert!(outcome.stdout.starts_with(&expected) && !outcome.stdout.contains("hidden"), "{outcome:?}");
}

#[tokio::test]
async fn a_backup_contains_no_settings_and_a_restore_keeps_those_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (data, _slack) = archive(folder.path()).await;
    write(&data.join("annalist.env"), "SLACK_APP_TOKEN=xapp-1-hidden\n", 0o600);
    let backup = folder.path().join("b.tar");
    let backup_text = backup.to_str().unwrap();
    annalist_with(&["backup", backup_text, "--data", data.to_str().unwrap()], &[]).await.succeeded();
    let bytes = fs::read(&backup).unwrap();
    for absent in [&b"annalist.env"[..], b"hidden"] {
        assert!(!bytes.windows(absent.len()).any(|window| window == absent));
    }
    for settings in [None, Some("ANNALIST_LOG=debug\n")] {
        let target = folder.path().join(if settings.is_some() { "with" } else { "without" });
        if let Some(settings) = settings {
            fs::create_dir(&target).unwrap();
            write(&target.join("annalist.env"), settings, 0o600);
        }
        annalist_with(&["restore", backup_text, "--data", target.to_str().unwrap()], &[]).await.succeeded();
        assert_eq!(fs::read_to_string(target.join("annalist.env")).ok().as_deref(), settings);
        annalist_with(&["status", "--data", target.to_str().unwrap()], &[]).await.succeeded();
    }
}

//! A refused export is one line on standard error and leaves no files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tests::harness::binaries::binaries;
use tests::harness::command::{self, CommandOutput};

use super::{export, imported, ts};
use crate::import::export::{Export, ImportFolder, exported_message};
use crate::import::import;

async fn archive() -> ImportFolder {
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("older.zip", &imported());
    assert_eq!(import(&zip, &import_folder.data()).await.code, Some(0));
    import_folder
}

fn assert_refused(outcome: &CommandOutput, code: i32, expected: &str, folder: &Path) {
    outcome.assert_refused(code, expected);
    assert!(fs::read_dir(folder).unwrap().next().is_none(), "{outcome:?}");
}

#[tokio::test]
async fn missing_entities_and_invalid_arguments_are_refused() {
    let import_folder = archive().await;
    let (data, folder) = (import_folder.data(), tempfile::tempdir().unwrap());
    let long = "x".repeat(10_000);
    for (args, code, expected) in [
        (&["--channel", "nowhere"][..], 2, "no channel nowhere"),
        (&["--channel", "#genera"], 2, "did you mean #general?"),
        (&["--channel", "../../etc"], 2, "no channel"),
        (&["--channel", &long], 2, "no channel"),
        (&["--team", "T0NOWHERE"], 2, "no workspace"),
        (&["--since", "2026-02-01", "--until", "2026-01-01"], 2, "--until"),
        (&["--since", "2026-02-01", "--until", "2026-02-01"], 2, "--until"),
        (&["--since", "tomorrow"], 2, "--since"),
    ] {
        for format in ["slack", "text"] {
            let outcome = export(data.as_path(), format, &folder.path().join("out"), args).await;
            assert_refused(&outcome, code, expected, folder.path());
        }
    }
    let outcome = export(data.as_path(), "docx", &folder.path().join("out"), &[]).await;
    assert_refused(&outcome, 2, "slack, jsonl, html, markdown, text", folder.path());
    let outcome = export(data.as_path(), "slack", &folder.path().join("no/such/folder.zip"), &[]).await;
    assert_refused(&outcome, 1, "cannot write to", folder.path());
    let nowhere = folder.path().join("data");
    let outcome = export(nowhere.as_path(), "slack", &folder.path().join("out"), &[]).await;
    assert_refused(&outcome, 1, "annalist", folder.path());
}

#[tokio::test]
async fn an_export_replaces_no_existing_file() {
    let import_folder = archive().await;
    let (data, folder) = (import_folder.data(), tempfile::tempdir().unwrap());
    let (file, full) = (folder.path().join("mine.zip"), folder.path().join("mine"));
    fs::write(&file, "mine").unwrap();
    fs::create_dir(&full).unwrap();
    for format in ["slack", "jsonl", "html", "markdown", "text"] {
        for out in [&file, &full] {
            let outcome = export(data.as_path(), format, out, &[]).await;
            assert_eq!(outcome.code, Some(1));
            assert!(outcome.stderr.contains("exists: choose another name"), "{outcome:?}");
        }
        let outcome = export(data.as_path(), format, &data.join("files/out"), &[]).await;
        assert!(outcome.stderr.contains("in the data folder"), "{outcome:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// As with `| head -1`, which closes the pipe early.
#[tokio::test]
async fn a_closed_output_pipe_is_not_a_failure() {
    let import_folder = archive().await;
    let (data, folder) = (import_folder.data(), tempfile::tempdir().unwrap());
    let run = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(&binaries().annalist);
        command.args(args).arg("--data").arg(&data).env_clear().stdout(writer);
        let Output { status, stderr, .. } = command.output().unwrap();
        assert_eq!((status.code(), String::from_utf8_lossy(&stderr)), (Some(0), "".into()), "{args:?}");
    };
    for format in ["slack", "jsonl", "html", "markdown", "text"] {
        let out = folder.path().join(format);
        run(&["export", "--format", format, "--out", out.to_str().unwrap()]);
        assert!(out.exists(), "{format}: the export is complete");
    }
    for args in [
        &["messages", "#general"][..],
        &["messages", "#general", "--json"],
        &["thread", "#general", &ts(1)],
        &["channels"],
        &["users", "--json"],
        &["files"],
        &["coverage"],
        &["search", "question"],
        &["report", "--from", "2020-09-01", "--to", "2020-10-01"],
    ] {
        run(args);
    }
}

/// A limit on the length of files simulates a full disk: a write fails in the same way.
#[tokio::test]
async fn a_full_disk_ends_an_export_with_one_line_and_no_files() {
    let import_folder = ImportFolder::new();
    let letters = |seed: u32| -> String {
        let next = |number: &u32| Some(number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let numbers = std::iter::successors(Some(seed), next);
        numbers.take(40_000).map(|number| char::from(b'a' + (number >> 24) as u8 % 26)).collect()
    };
    let long: Vec<Value> =
        (0..10).map(|second| exported_message(&ts(second), "U1", &letters(second))).collect();
    let export =
        Export::with_lists(&["U1"], &[("C1", "general")]).with("general/2020-09-13.json", &json!(long));
    let data = import_folder.data();
    assert_eq!(import(&import_folder.zip("long.zip", &export), &data).await.code, Some(0));
    let folder = tempfile::tempdir().unwrap();
    for format in ["slack", "jsonl", "html", "markdown", "text"] {
        let out = folder.path().join("out");
        // Without the trap, SIGXFSZ would end the process before it could print the error.
        let command = format!(
            "trap '' XFSZ; ulimit -f 100; exec '{}' export --format {format} --out '{}' --data '{}' 2>&1 | cat",
            binaries().annalist.display(),
            out.display(),
            data.display()
        );
        let outcome =
            command::run(Path::new("/bin/bash"), &["-c", &command], &[("PATH", "/usr/bin:/bin")]).await;
        assert!(outcome.stdout.contains("cannot write the export"), "{format}: {outcome:?}");
        assert_eq!(outcome.stdout.lines().count(), 1, "{format}: {outcome:?}");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "{format}");
    }
}

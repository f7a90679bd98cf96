//! Exports that are damaged, hostile or odd: a line for each problem, and all readable messages are stored.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tests::harness::binaries::binaries;
use tests::harness::command::json_lines;
use tokio::process::Command;

use super::export::{Export, ImportFolder, channel, exported_message};
use super::{Imported, import, import_with, rows};

fn general(days: &[(&str, Value)]) -> Export {
    let export = Export::with_lists(&["U1"], &[("C1", "general")]);
    days.iter().fold(export, |export, (day, messages)| export.with(&format!("general/{day}.json"), messages))
}

fn day(ts: &str) -> Value {
    json!([exported_message(ts, "U1", "hello")])
}

async fn imported(export: &Export) -> (ImportFolder, Imported) {
    let import_folder = ImportFolder::new();
    let imported = import(&import_folder.zip("export.zip", export), &import_folder.data()).await;
    (import_folder, imported)
}

async fn texts(data: &Path) -> usize {
    json_lines(data, &["messages", "general"]).await.len()
}

#[tokio::test]
async fn a_broken_day_a_bomb_and_an_unknown_folder_are_three_lines_and_the_rest_is_stored() {
    let bomb = format!("[{}]", " ".repeat(10_000_000));
    let export =
        general(&[("2020-09-13", day("1600000001.000100")), ("2020-09-15", day("1600172801.000100"))])
            .with_bytes(
                "general/2020-09-14.json",
                r#"[{"type":"message","ts":"1600086401.000100","text":"a"},{"ts":"16"#,
            )
            .with_bytes("general/2020-09-16.json", bomb)
            .with("nowhere/2020-09-13.json", &day("1600000002.000100"));
    let (import_folder, imported) = imported(&export).await;
    assert_eq!(imported.code, Some(1));
    let mut kinds = imported.kinds();
    kinds.sort_unstable();
    assert_eq!(kinds, ["broken_day", "too_large", "unknown_folder"], "{:?}", imported.problems);
    assert_eq!((imported.count("new"), imported.count("skipped"), imported.count("problems")), (3, 3, 3));
    assert_eq!(texts(&import_folder.data()).await, 3);
    assert!(imported.problems.iter().any(|(_, path, _)| path == "general/2020-09-14.json"));
    // A channel with missing messages is not recorded as complete.
    assert!(!rows(&import_folder.data()).iter().any(|(item, _, _)| item.starts_with("filled#")));
}

#[tokio::test]
async fn a_file_that_is_truncated_or_encrypted_or_not_a_zip_is_one_line() {
    let import_folder = ImportFolder::new();
    let whole = import_folder.zip("whole.zip", &general(&[("2020-09-13", day("1600000001.000100"))]));
    let bytes = fs::read(&whole).unwrap();
    let cut = whole.with_file_name("cut.zip");
    let broken = whole.with_file_name("encrypted.zip");
    let not_a_zip = whole.with_file_name("none.zip");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    // Bit 0 of the flags, in each header: "encrypted".
    let mut encrypted = bytes.clone();
    for at in 0..encrypted.len() - 10 {
        match &encrypted[at..at + 4] {
            b"PK\x03\x04" => encrypted[at + 6] |= 1,
            b"PK\x01\x02" => encrypted[at + 8] |= 1,
            _ => {}
        }
    }
    fs::write(&broken, encrypted).unwrap();
    fs::write(&not_a_zip, "hello").unwrap();
    for (zip, word) in [(&cut, "cut off"), (&broken, "encrypted"), (&not_a_zip, "no zip")] {
        let imported = import(zip, &import_folder.data()).await;
        assert_eq!((imported.code, imported.kinds()), (Some(1), vec!["broken_zip"]), "{word}");
        assert!(imported.problems[0].2.contains(word), "{:?}", imported.problems);
        assert_eq!(imported.stderr.lines().count(), 1, "{}", imported.stderr);
        assert!(!import_folder.data().exists());
    }
}

#[tokio::test]
async fn a_zip_that_is_not_an_export_is_refused() {
    let export = Export::default().with_bytes("photo.jpg", "x").with_bytes("a/2020-09-13.json", "[]");
    let (import_folder, imported) = imported(&export).await;
    assert_eq!(imported.code, Some(1));
    assert!(imported.stderr.contains("not a Slack export"), "{}", imported.stderr);
    assert_eq!((imported.count("messages"), imported.count("problems")), (0, 0), "the sum is printed");
    assert!(rows(&import_folder.data()).is_empty());
}

#[tokio::test]
async fn names_that_are_paths_are_not_followed() {
    let export = general(&[("2020-09-13", day("1600000001.000100"))])
        .with("../2020-09-13.json", &day("1600000002.000100"))
        .with("/etc/2020-09-13.json", &day("1600000003.000100"))
        .with("general/../general/2020-09-14.json", &day("1600000004.000100"))
        .with("general\\2020-09-15.json", &day("1600000005.000100"));
    let (import_folder, imported) = imported(&export).await;
    assert_eq!((imported.code, imported.count("new")), (Some(1), 1));
    assert_eq!(imported.kinds(), ["unknown_folder"; 4], "{:?}", imported.problems);
    let siblings: Vec<_> = fs::read_dir(import_folder.data().parent().unwrap()).unwrap().collect();
    assert_eq!(siblings.len(), 2, "the zip and the data folder: {siblings:?}");
}

#[tokio::test]
async fn odd_messages_are_a_line_each_and_the_others_are_stored() {
    let mut edited_tomorrow = exported_message("1600000005.000100", "U1", "x");
    edited_tomorrow["edited"] = json!({ "user": "U1", "ts": "9000000000.000000" });
    let mut numeric = exported_message("1", "U1", "an old export");
    numeric["ts"] = json!(1_355_517_523.000_008_f64);
    let odd = json!([
        null,
        "text",
        { "type": "message", "text": "no time" },
        exported_message("soon", "U1", "x"),
        exported_message("9000000000.000100", "U1", "from the future"),
        edited_tomorrow,
        numeric,
        exported_message("1600000001.000100", "U1", "twice"),
        exported_message("1600000001.000100", "U1", "twice"),
        { "type": "message", "ts": "1600000002.000100", "text": null, "files": [null], "bot_id": "B1" },
        exported_message("1600000003.000100", "U404", "unknown"),
        exported_message("1600000004.000100", "USLACKBOT", "hello"),
    ]);
    let (import_folder, imported) = imported(&general(&[("2020-09-13", odd)])).await;
    assert_eq!(imported.code, Some(1));
    let kinds = [
        "broken_message",
        "broken_message",
        "broken_message",
        "bad_time",
        "bad_time",
        "bad_time",
        "duplicate",
        "unknown_user",
    ];
    assert_eq!(imported.kinds(), kinds, "{:?}", imported.problems);
    assert_eq!((imported.count("messages"), imported.count("new"), imported.count("skipped")), (6, 5, 6));
    assert_eq!(texts(&import_folder.data()).await, 5);
    let placeholder = rows(&import_folder.data())
        .into_iter()
        .find(|(item, key, _)| item.starts_with("user#") && key == "U404");
    assert!(!placeholder.unwrap().2.contains("insert_timestamp"));
}

#[tokio::test]
async fn a_warning_is_a_line_and_not_a_failure() {
    let day = json!([
        exported_message("1600000001.000100", "U404", "x"),
        exported_message("1600000001.000100", "U404", "x")
    ]);
    let (_import_folder, imported) = imported(&general(&[("2020-09-13", day)])).await;
    assert_eq!((imported.code, imported.kinds()), (Some(0), vec!["unknown_user", "duplicate"]));
}

#[tokio::test]
async fn days_that_are_not_lists_are_a_line_each() {
    let export =
        general(&[("2020-09-13", json!({ "messages": [] })), ("2020-09-15", day("1600172801.000100"))])
            .with_bytes("general/2020-09-14.json", "")
            .with_bytes("general/2020-09-16.json", "[] []")
            .with_bytes(
                "general/2020-09-17.json",
                b"[{\"ts\":\"1600259201.000100\",\"text\":\"\xff\"}]".to_vec(),
            );
    let (_import_folder, imported) = imported(&export).await;
    assert_eq!(imported.kinds(), ["broken_day", "broken_day", "broken_day", "broken_message"]);
    assert_eq!((imported.code, imported.count("new")), (Some(1), 1));
}

#[tokio::test]
async fn messages_of_two_channels_with_one_name_are_skipped() {
    let export = Export::with_lists(&["U1"], &[("C1", "general"), ("C2", "twice"), ("C3", "twice")])
        .with("groups.json", &json!([channel("G1", "both")]))
        .with("general/2020-09-13.json", &day("1600000001.000100"))
        .with("twice/2020-09-13.json", &day("1600000002.000100"))
        .with("twice/2020-09-14.json", &day("1600086402.000100"));
    let (import_folder, imported) = imported(&export).await;
    assert_eq!((imported.code, imported.kinds()), (Some(1), vec!["unknown_folder"]));
    assert_eq!((imported.count("new"), imported.count("skipped")), (1, 2));
    assert!(!format!("{:?}", rows(&import_folder.data())).contains("1600000002.000100\", \"{"));
}

#[tokio::test]
async fn an_export_without_a_workspace_needs_the_team_flag() {
    let mut message = exported_message("1600000001.000100", "U1", "hello");
    message.as_object_mut().unwrap().remove("team");
    let without = Export::default()
        .with("channels.json", &json!([channel("C1", "general")]))
        .with("general/2020-09-13.json", &json!([message]));
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &without);
    let refused = import(&zip, &import_folder.data()).await;
    assert_eq!(refused.code, Some(1));
    let expected = "it lists no people of a workspace, so its workspace is unknown: set it with --team";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert_eq!(refused.count("new"), 0);
    let with_team = import_with(&zip, &import_folder.data(), &["--team", "T1"], &[]).await;
    assert_eq!(
        (with_team.code, with_team.kinds(), with_team.count("new")),
        (Some(0), vec!["unknown_user"], 1)
    );
}

#[tokio::test]
async fn a_truncated_list_of_people_is_a_line_and_the_messages_are_stored() {
    let export = Export::default()
        .with_bytes("users.json", r#"[{"id":"U1","team_id":"T0ANNALIST","name":"ada"},{"id":"U2","na"#)
        .with("channels.json", &json!([channel("C1", "general"), null]))
        .with("general/2020-09-13.json", &day("1600000001.000100"));
    let (_import_folder, imported) = imported(&export).await;
    assert_eq!((imported.code, imported.kinds()), (Some(1), vec!["broken_zip", "broken_message"]));
    assert_eq!((imported.count("new"), imported.count("users")), (1, 1));
}

#[tokio::test]
async fn an_unreadable_list_is_named_even_if_the_export_is_refused_because_of_it() {
    let export = Export::default()
        .with_bytes("users.json", "")
        .with("channels.json", &json!([channel("C1", "general")]))
        .with("general/2020-09-13.json", &json!([{ "user": "U1", "ts": "1600000001.000100", "text": "hi" }]));
    let (_import_folder, refused) = imported(&export).await;
    assert_eq!((refused.code, refused.kinds()), (Some(1), vec!["broken_zip"]));
    assert_eq!((refused.problems[0].1.as_str(), refused.count("problems")), ("users.json", 1));
    assert!(refused.stderr.contains("--team"), "{}", refused.stderr);
}

#[tokio::test]
async fn an_entry_with_damaged_bytes_is_a_line() {
    let import_folder = ImportFolder::new();
    let text = "unmistakable ".repeat(3);
    let export = general(&[("2020-09-14", day("1600086401.000100"))])
        .with("general/2020-09-13.json", &json!([exported_message("1600000001.000100", "U1", &text)]));
    let zip = import_folder.zip("export.zip", &export);
    let mut bytes = fs::read(&zip).unwrap();
    // The central directory also contains the checksum of each entry: make one of them wrong.
    let headers: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| &bytes[*at..at + 4] == b"PK\x01\x02").collect();
    bytes[headers[3] + 16] ^= 0xff;
    fs::write(&zip, bytes).unwrap();
    let imported = import(&zip, &import_folder.data()).await;
    assert_eq!((imported.code, imported.kinds()), (Some(1), vec!["broken_day"]), "{:?}", imported.problems);
    assert_eq!(imported.count("new"), 2);
}

#[tokio::test]
async fn a_full_disk_is_one_line_and_the_next_import_stores_the_rest() {
    let import_folder = ImportFolder::new();
    let mut random = fastrand::Rng::with_seed(7);
    let mut messages = |first: usize| -> Value {
        let message = |n| {
            let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(2_000).collect();
            exported_message(&format!("{}.000100", 1_600_000_000 + n), "U1", &text)
        };
        (first..first + 2_000).map(message).collect()
    };
    let export = general(&[("2020-09-13", messages(0)), ("2020-09-14", messages(10_000))]);
    let zip = import_folder.zip("export.zip", &export);
    let small = import_folder.zip("small.zip", &general(&[("2020-09-12", day("1599999999.000100"))]));
    import(&small, &import_folder.data()).await;
    let before = texts(&import_folder.data()).await;

    // If the signal is ignored, a write beyond the limit fails as on a full disk.
    let limited = r#"trap '' XFSZ; ulimit -S -f 4000; exec "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh"]).arg(&binaries().annalist).env_clear();
    command.args(["import", zip.to_str().unwrap(), "--json", "--data"]).arg(import_folder.data());
    let output = command.output().await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("import it again") && stderr.trim_end().lines().count() == 1, "{stderr}");
    assert_eq!(stderr.matches("the archive is unavailable").count(), 1, "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let sum: Value = serde_json::from_str(stdout.lines().last().unwrap_or_default()).unwrap();
    assert!(sum["new"].as_u64().is_some_and(|new| new < 4_000), "what was stored until then: {sum}");
    assert!(texts(&import_folder.data()).await >= before);
    assert!(
        !rows(&import_folder.data())
            .iter()
            .any(|(item, key, _)| { item.starts_with("filled#") && key.contains("001600011999") })
    );

    let rest = import(&zip, &import_folder.data()).await;
    assert_eq!((rest.code, rest.count("messages")), (Some(0), 4_000), "{}", rest.stderr);
    assert_eq!(texts(&import_folder.data()).await, 4_001);
}

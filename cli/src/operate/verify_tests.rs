use std::fs;

use ports::archive::ArchiveExt;
use ports::archive::erasure::{ErasureFact, ErasureScope};
use rules::file::row;
use serde_json::Value;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::*;
use crate::fixture::{CliFixture, output};

async fn verify(fixture: &CliFixture, arguments: &[&str]) -> (Vec<Value>, Option<String>) {
    let mut args: VerifyArgs = crate::fixture::parsed(arguments).unwrap();
    (args.json, args.backend) = (true, fixture.data());
    let mut error = None;
    let printed = output(async |out| {
        error = run(&fixture.backend, &args, out).await.err().map(|error| error.to_string());
        anyhow::Ok(())
    });
    let printed = printed.await.unwrap();
    (printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), error)
}

/// An archive with a file that is stored under this key, and its path.
async fn filled() -> (CliFixture, std::path::PathBuf) {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "hello").await;
    fixture.edit("T1", "C1", "1700000000.000100", "1700000009.000000", "hello again").await;
    let key = ports::files::FileKey::parse("slack/T1/C1/1700000000.000100/F1").unwrap();
    let mut writer = fixture.backend.files().create(&key).await.unwrap();
    writer.write("abcd".into()).await.unwrap();
    writer.publish().await.unwrap();
    let held = row::StoredBytes {
        key: key.clone(),
        source: "own".into(),
        size_bytes: 4,
        sha256: to_hex(&Sha256::digest(b"abcd")),
    };
    let (team, file) = (TeamId::parse("T1").unwrap(), FileId::parse("F1").unwrap());
    fixture.archive().write(&row::stored(&team, &file, &held)).await.unwrap();
    let path = fixture.data().data.data.join("files").join(key.as_str());
    (fixture, path)
}

#[tokio::test]
async fn a_whole_archive_has_no_problem() {
    let (fixture, _) = filled().await;
    let (lines, error) = verify(&fixture, &[]).await;
    assert_eq!((lines.len(), error), (1, None), "{lines:?}");
    let counts = ["messages", "files", "bytes", "problems"].map(|name| lines[0][name].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 4, 0]);
}

#[tokio::test]
async fn each_kind_of_damage_is_named() {
    type Damage = (&'static str, fn(&std::path::Path));
    let damages: [Damage; 3] = [
        ("missing_file", |path| fs::remove_file(path).unwrap()),
        ("damaged_file", |path| fs::write(path, "abce").unwrap()),
        ("damaged_file", |path| fs::write(path, "abc").unwrap()),
    ];
    for (problem, damage) in damages {
        let (fixture, path) = filled().await;
        damage(&path);
        let (lines, error) = verify(&fixture, &[]).await;
        assert_eq!((lines.len(), &lines[0]["problem"]), (2, &json!(problem)), "{lines:?}");
        assert_eq!(lines[0]["what"], "slack/T1/C1/1700000000.000100/F1");
        assert!(error.unwrap().starts_with("1 problem: "));
        assert_eq!(verify(&fixture, &["--no-files"]).await.1, None);
    }
}

#[tokio::test]
async fn content_that_an_erasure_covers_is_named_until_it_is_erased() {
    let (fixture, _) = filled().await;
    let scope = ErasureScope::Channel(ChannelId::parse("C1").unwrap());
    let (team, until) = (TeamId::parse("T1").unwrap(), Ts::parse("1800000000.000000").unwrap());
    fixture.archive().write(&ErasureFact { team, scope, until }.update()).await.unwrap();
    let (lines, _) = verify(&fixture, &[]).await;
    let named: Vec<&str> = lines.iter().filter_map(|line| line["what"].as_str()).collect();
    assert_eq!(named.len(), 2, "{lines:?}");
    assert!(named.iter().all(|what| what.contains("C1")), "{named:?}");
    for what in named {
        let (item_id, timestamp) = what.split_once(" / ").unwrap();
        fixture.archive().erase(&ItemKey::new(item_id, timestamp)).await.unwrap();
    }
    assert_eq!(verify(&fixture, &[]).await.1, None);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_and_a_changed_database_are_named() {
    let (fixture, _) = filled().await;
    let database = rusqlite::Connection::open(fixture.data().data.data.join("annalist.db")).unwrap();
    let cut = "UPDATE items SET attributes = '{\"text\":\"hel' WHERE item_id = 'message#T1#C1'";
    database.execute_batch(cut).unwrap();
    let (lines, error) = verify(&fixture, &[]).await;
    assert_eq!((lines.len(), &lines[0]["problem"]), (2, &json!("row")), "{lines:?}");
    assert_eq!(lines[0]["what"], "message#T1#C1 / 1700000000.000100");
    assert!(error.unwrap().starts_with("1 problem: "));
    database.execute_batch("CREATE INDEX mine ON items (attributes)").unwrap();
    let (lines, _) = verify(&fixture, &[]).await;
    let problems: Vec<&str> = lines.iter().filter_map(|line| line["problem"].as_str()).collect();
    assert_eq!(problems, ["database", "row"], "{lines:?}");
}

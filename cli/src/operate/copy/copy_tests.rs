use std::convert::Infallible;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use embedded::FILES_FOLDER;
use embedded::backup::{ReadLimits, ReadRow, read_rows};
use flate2::read::GzDecoder;
use ports::archive::{ArchiveExt, Query, key};
use ports::files::FileKey;
use process::config::backend::BackendKind;
use process::config::copy::CopyTarget;
use rules::file::row::{self, StoredBytes};
use serde_json::Value;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::*;
use crate::fixture::CliFixture;
use crate::operate::erase::{self, EraseArgs};
use crate::operate::restore::{self as restoring, RestoreArgs};
use crate::operate::status;
use crate::operate::verify::{self, VerifyArgs};

const SECRET: &str = "a text that is erased later";
const FILE_TS: &str = "1700100001.000000";
const BYTES: &[u8] = b"the bytes of a file";

/// An archive with messages, and a stored file.
async fn archive() -> (CliFixture, FileKey) {
    let fixture = CliFixture::open().await;
    let timestamps: Vec<String> = (0..300).map(|second| format!("17000{second:05}.000000")).collect();
    fixture.post_all("T1", "C1", &timestamps).await;
    fixture.post("T1", "C1", "1700100000.000000", SECRET).await;
    fixture.share("T1", "C1", FILE_TS, &json!({ "id": "F1", "name": "a.txt", "user": "U1" })).await;
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let file = FileId::parse("F1").unwrap();
    let key = FileKey::shared(&team, &channel, &Ts::parse(FILE_TS).unwrap(), &file);
    let mut writer = fixture.backend.files().create(&key).await.unwrap();
    writer.write(Bytes::from_static(BYTES)).await.unwrap();
    writer.publish().await.unwrap();
    let stored = StoredBytes {
        key: key.clone(),
        source: "own".into(),
        size_bytes: BYTES.len() as u64,
        sha256: to_hex(&Sha256::digest(BYTES)),
    };
    fixture.archive().write(&row::stored(&team, &file, &stored)).await.unwrap();
    (fixture, key)
}

fn args(fixture: &CliFixture, to: &Path) -> CopyCommandArgs {
    CopyCommandArgs {
        target: CopyNowArgs { to: Some(CopyTarget::Folder(to.to_owned())), copy_keep: "7d".parse().unwrap() },
        list: false,
        json: true,
        backend: fixture.data(),
    }
}

async fn copy(fixture: &CliFixture, args: &CopyCommandArgs) -> Value {
    let mut out = Vec::new();
    run(&fixture.backend, args, &mut out).await.unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn line(error: &anyhow::Error) -> String {
    let line = format!("{error:#}");
    assert!(!line.contains('\n'), "{line}");
    line
}

async fn restored(to: &Path, data: &Path, until: Option<&str>) -> anyhow::Result<String> {
    let until = until.map(|until| crate::operate::date::date(until).unwrap());
    let args = RestoreArgs { file: to.to_owned(), until, backend: BackendArgs::embedded(data) };
    let restoring = tokio::task::spawn_blocking(move || {
        let mut out = Vec::new();
        restoring::run(&args, &mut out).map(|()| String::from_utf8(out).unwrap())
    });
    restoring.await.unwrap()
}

/// The messages of a folder, by their texts.
async fn texts(data: &Path) -> Vec<String> {
    let backend = Backend::open(&BackendArgs::embedded(data), SystemClock::shared()).await.unwrap();
    let query =
        Query::partition(key::messages(&TeamId::parse("T1").unwrap(), &ChannelId::parse("C1").unwrap()));
    let rows = ports::archive::query_all(&*backend.archive(), query).await.unwrap();
    let texts = rows.iter().map(|row| row.text("text").unwrap_or_default().to_owned()).collect();
    backend.close().await;
    texts
}

async fn verify(fixture: &CliFixture, to: &Path) -> (anyhow::Result<()>, String) {
    let mut args: VerifyArgs = crate::fixture::parsed(&["--json", "--copy", to.to_str().unwrap()]).unwrap();
    args.backend = fixture.data();
    let mut out = Vec::new();
    let verified = verify::run(&fixture.backend, &args, &mut out).await;
    (verified, String::from_utf8(out).unwrap())
}

/// The objects below a folder of the copy.
fn objects(to: &Path, folder: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![to.join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort_unstable();
    found
}

#[tokio::test]
async fn a_copy_writes_what_changed_and_restores_the_archive_as_of_one_moment() {
    let (fixture, key) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let (to, data) = (folder.path().join("copies"), folder.path().join("restored"));
    std::fs::create_dir(&to).unwrap();
    let args = args(&fixture, &to);
    let first = copy(&fixture, &args).await;
    assert_eq!((&first["files_copied"], &first["blocks"]), (&1.into(), &first["new_blocks"]), "{first}");
    fixture.post("T1", "C1", "1700200000.000000", "posted later").await;
    let second = copy(&fixture, &args).await;
    let (bytes, before) =
        (second["bytes_written"].as_u64().unwrap(), first["bytes_written"].as_u64().unwrap());
    // An archive of a few hundred rows has few blocks.
    assert!(second["new_blocks"].as_u64().unwrap() <= 4 && bytes < before, "{first} {second}");
    assert_eq!(second["files_copied"], 0);
    assert_eq!(copy(&fixture, &args).await["new_blocks"].as_u64().unwrap(), 1, "the row about the last copy");

    let mut out = Vec::new();
    run(&fixture.backend, &CopyCommandArgs { list: true, ..args.clone() }, &mut out).await.unwrap();
    let listed: Vec<Value> =
        out.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(listed.len(), 3);
    assert_eq!((&listed[0]["at"], &listed[0]["messages"]), (&first["at"], &302.into()), "{listed:?}");

    let printed = restored(&to, &data, None).await.unwrap();
    assert!(printed.contains("303 messages and 1 file"), "{printed}");
    let restored_texts = texts(&data).await;
    assert_eq!(restored_texts, texts(&fixture.data().data.data).await);
    assert_eq!(std::fs::read(data.join(FILES_FOLDER).join(key.as_str())).unwrap(), BYTES);
    // An earlier one.
    let early = folder.path().join("early");
    let until = first["at"].as_str().unwrap();
    restored(&to, &early, Some(until)).await.unwrap();
    assert_eq!(texts(&early).await.len(), 302);
    let refused = restored(&to, &folder.path().join("none"), Some("2001-01-01")).await.unwrap_err();
    assert!(line(&refused).contains(until), "{refused:#}");
    assert!(!folder.path().join("none").exists());
    let refused = restored(&to, &data, None).await.unwrap_err();
    assert!(line(&refused).contains("not empty"), "{refused:#}");
}

/// The bytes of all rows, as a copy has them before it compresses them.
fn row_bytes(data: &Path) -> u64 {
    let mut bytes = 0;
    let sum = |row: ReadRow<'_>| {
        if let ReadRow::Row { line, .. } = row {
            bytes += line.len() as u64;
        }
        Ok::<(), Infallible>(())
    };
    read_rows(data, ReadLimits::default(), sum).unwrap();
    bytes
}

#[tokio::test]
async fn a_copy_after_edits_of_a_percent_of_the_messages_writes_less_than_three_percent() {
    let (fixture, to) = (CliFixture::open().await, tempfile::tempdir().unwrap());
    let args = args(&fixture, to.path());
    let timestamps: Vec<String> = (0..4_000).map(|second| format!("17000{second:05}.000000")).collect();
    // Of 256 characters, which are different in each version.
    let text = |ts: &str, version: &str| to_hex(&Sha256::digest(format!("{ts} {version}"))).repeat(4);
    for batch in timestamps.chunks(500) {
        fixture.post_texts("T1", "C1", batch.iter().map(|ts| (ts.clone(), text(ts, "first")))).await;
    }
    let first = copy(&fixture, &args).await;
    let mut edited = 0;
    for ts in timestamps.iter().skip(50).step_by(100) {
        edited += 1;
        let edited_ts = format!("17001{edited:05}.000000");
        fixture.edit("T1", "C1", ts, &edited_ts, &text(ts, "second")).await;
    }
    let second = copy(&fixture, &args).await;
    // It rewrites the whole database, with the rows in the same order.
    let mut compacting: EraseArgs =
        crate::fixture::parsed(&["--message", "C1", &timestamps[7], "--yes", "--compact"]).unwrap();
    compacting.backend = fixture.data();
    erase::run(&fixture.backend, fixture.clock(), &compacting, &mut Vec::new()).await.unwrap();
    let third = copy(&fixture, &args).await;
    let all = row_bytes(&fixture.data().data.data);
    let written = [&second, &third].map(|made| made["bytes_written"].as_u64().unwrap());
    assert!(
        edited == 40 && written.iter().all(|written| written * 100 < all * 3),
        "{written:?} of {all} bytes: {first} {second} {third}"
    );
}

#[tokio::test]
async fn erased_text_and_files_are_gone_after_a_copy_that_keeps_only_the_newest() {
    let (fixture, key) = archive().await;
    let to = tempfile::tempdir().unwrap();
    let mut args = args(&fixture, to.path());
    args.target.copy_keep = "0d".parse().unwrap();
    copy(&fixture, &args).await;
    let holds_secret = || {
        let texts = objects(to.path(), "block").into_iter().map(|path| {
            let mut text = String::new();
            let bytes = std::fs::read(path).unwrap();
            std::io::Read::read_to_string(&mut GzDecoder::new(&bytes[..]), &mut text).unwrap();
            text
        });
        texts.filter(|text| text.contains(SECRET)).count()
    };
    assert!(holds_secret() > 0);
    fixture.erase("C1", "1700100000.000000").await;
    fixture.erase("C1", FILE_TS).await;
    copy(&fixture, &args).await;
    assert_eq!(holds_secret(), 0);
    assert!(!to.path().join("files").join(key.as_str()).exists());
    assert_eq!(objects(to.path(), "base").len(), 1);
}

#[tokio::test]
async fn a_lost_folder_of_files_does_not_empty_the_copy() {
    let (fixture, key) = archive().await;
    let to = tempfile::tempdir().unwrap();
    copy(&fixture, &args(&fixture, to.path())).await;
    std::fs::remove_dir_all(fixture.data().data.data.join(FILES_FOLDER)).unwrap();
    copy(&fixture, &args(&fixture, to.path())).await;
    assert!(to.path().join("files").join(key.as_str()).is_file());
}

#[tokio::test]
async fn verify_and_restore_find_every_object_that_is_missing_or_changed() {
    let (fixture, key) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("copies");
    std::fs::create_dir(&to).unwrap();
    copy(&fixture, &args(&fixture, &to)).await;
    let (verified, out) = verify(&fixture, &to).await;
    verified.unwrap_or_else(|error| panic!("{error:#}: {out}"));
    let file = to.join("files").join(key.as_str());
    let blocks = objects(&to, "block");
    let (base, first, last) =
        (objects(&to, "base").remove(0), blocks[0].clone(), blocks[blocks.len() - 1].clone());
    for (number, object) in [base, first, last, file.clone()].iter().enumerate() {
        let bytes = std::fs::read(object).unwrap();
        for changed in [None, Some(&bytes[..bytes.len() / 2])] {
            std::fs::remove_file(object).unwrap();
            if let Some(changed) = changed {
                std::fs::write(object, changed).unwrap();
            }
            let (verified, out) = verify(&fixture, &to).await;
            line(&verified.unwrap_err());
            let name = object.strip_prefix(&to).unwrap().to_str().unwrap();
            assert!(
                out.contains("\"copy\"") && (out.contains(name) || name.starts_with("base")),
                "{name}: {out}"
            );
            let data = folder.path().join(format!("restored-{number}-{}", changed.is_some()));
            match restored(&to, &data, None).await {
                Ok(printed) => {
                    assert!(object == &file && printed.contains(key.as_str()), "{name}: {printed}");
                    assert!(!data.join(FILES_FOLDER).join(key.as_str()).exists());
                }
                Err(error) => {
                    line(&error);
                    assert!(object != &file && !data.exists(), "{name}: {error:#}");
                }
            }
            std::fs::write(object, &bytes).unwrap();
        }
    }
    // Other bytes of the same length.
    std::fs::write(&file, vec![7; BYTES.len()]).unwrap();
    let printed = restored(&to, &folder.path().join("restored"), None).await.unwrap();
    assert!(printed.contains("Left out") && printed.contains(key.as_str()), "{printed}");
}

#[tokio::test]
async fn a_copy_that_cannot_be_made_is_one_line_and_shown_until_the_next_one() {
    let (fixture, _) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let (to, missing) = (folder.path().join("copies"), folder.path().join("missing"));
    std::fs::create_dir(&to).unwrap();
    let error = run(&fixture.backend, &args(&fixture, &missing), &mut Vec::new()).await.unwrap_err();
    assert!(line(&error).contains("does not exist") && !missing.exists(), "{error:#}");
    let shown = async || {
        let (queue, archive) = (fixture.backend.queue(), fixture.backend.archive());
        status::read(&*queue, &*archive).await.unwrap().copy.unwrap()
    };
    let state = shown().await;
    assert!(state.at.is_none() && state.error.is_some_and(|error| error.contains("does not exist")));
    let made = copy(&fixture, &args(&fixture, &to)).await;
    let state = shown().await;
    assert_eq!((state.at.as_deref(), state.error), (made["at"].as_str(), None));
    let another = archive().await.0;
    let error = run(&another.backend, &args(&another, &to), &mut Vec::new()).await.unwrap_err();
    assert!(line(&error).contains("another archive"), "{error:#}");
    assert_eq!(objects(&to, "base").len(), 1);
    let lock = fixture.backend.database().unwrap().lock_copying().unwrap();
    let error = run(&fixture.backend, &args(&fixture, &to), &mut Vec::new()).await.unwrap_err();
    assert!(line(&error).contains("another copy is running"), "{error:#}");
    drop(lock);
    copy(&fixture, &args(&fixture, &to)).await;
}

#[tokio::test]
async fn a_copy_next_to_the_archive_and_one_on_aws_are_usage_errors() {
    let (fixture, _) = archive().await;
    let within = args(&fixture, &fixture.data().data.data.join("copies"));
    let error = run(&fixture.backend, &within, &mut Vec::new()).await.unwrap_err();
    assert!(error.is::<UsageError>() && line(&error).contains("another disk"), "{error:#}");
    let mut on_aws = args(&fixture, Path::new("/mnt/copies"));
    on_aws.backend.backend = BackendKind::Aws;
    let error = run(&fixture.backend, &on_aws, &mut Vec::new()).await.unwrap_err();
    assert!(line(&error).contains("point-in-time recovery"), "{error:#}");
}

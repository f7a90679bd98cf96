//! A backup and what comes of it, together: `restore` reads what `backup` wrote.

use bytes::Bytes;
use embedded::FILES_FOLDER;
use ports::archive::{ArchiveExt, ItemKey};
use ports::clock::{ManualClock, SystemClock, TimestampMs};
use ports::files::FileKey;
use process::config::backend::Backend;
use rules::file::row;
use rules::file::row::{HeldBytes, Share};
use rules::project;
use serde_json::json;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::*;
use crate::fixture::CliFixture;
use crate::operate::packing::Packed;
use crate::operate::restore::{self, RestoreArgs};

const MARK: &[u8] = b"the bytes of a file that can be found in the backup again";

/// An archive with a message, a file that is held, and half of another.
async fn archive() -> (CliFixture, FileId) {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1.000000", "kept").await;
    let (team, file) = (TeamId::parse("T1").unwrap(), FileId::parse("F1").unwrap());
    let share = Share { channel: ChannelId::parse("C1").unwrap(), ts: Ts::parse("1.000000").unwrap() };
    let key = FileKey::shared(&team, &share.channel, &share.ts, &file);
    let files = fixture.backend.files();
    let mut writer = files.create(&key).await.unwrap();
    writer.write(Bytes::from_static(MARK)).await.unwrap();
    writer.publish().await.unwrap();
    let held = HeldBytes {
        key: key.clone(),
        source: "own".into(),
        size_bytes: MARK.len() as u64,
        sha256: String::new(),
    };
    fixture.archive().write(&row::held(&team, &file, &held)).await.unwrap();
    // Never published.
    std::mem::forget(files.create(&FileKey::image(&team, "https://example.com/half")).await.unwrap());
    (fixture, file)
}

fn args(fixture: &CliFixture, file: &Path) -> BackupArgs {
    BackupArgs { file: file.to_owned(), force: false, without_files: false, backend: fixture.data() }
}

fn backed_up(args: &BackupArgs) -> anyhow::Result<String> {
    let mut out = Vec::new();
    run(args, &*ManualClock::starting_at(TimestampMs(1_795_178_096_000)), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn restored(file: &Path, data: &Path) -> anyhow::Result<String> {
    let args = RestoreArgs { file: file.to_owned(), backend: BackendArgs::embedded(data) };
    let mut out = Vec::new();
    restore::run(&args, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn what_is_restored_reads_as_the_original_and_names_its_files_where_they_are_now() {
    let (fixture, file_id) = archive().await;
    let place = tempfile::tempdir().unwrap();
    let (file, data) = (place.path().join("a.tar"), place.path().join("it's new"));
    let said = backed_up(&args(&fixture, &file)).unwrap();
    assert!(said.contains("1 file (57 B)") && !said.contains("Left out"), "{said}");
    assert_eq!(names(place.path()), ["a.tar"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    let said = restored(&file, &data).unwrap();
    assert!(said.contains("and 1 file (57 B)") && said.contains("2026-11-20T"), "{said}");
    assert_eq!(names(place.path()), ["a.tar", "it's new"]);
    assert_eq!(names(&data), [DATABASE_FILE, FILES_FOLDER]);
    let backend = Backend::open_existing(&BackendArgs::embedded(&data), SystemClock::shared()).await.unwrap();
    let key = ItemKey::file(&TeamId::parse("T1").unwrap(), &file_id);
    let row = backend.archive().get(&key).await.unwrap().unwrap();
    let row = project::file(&row).unwrap();
    let row = project::address(&row, &BackendArgs::embedded(&data).files_uri().unwrap()).into_owned();
    let path =
        row["uri"].as_str().unwrap().strip_prefix("file://").unwrap().replace("%27", "'").replace("%20", " ");
    assert!(Path::new(&path).starts_with(&data), "{path}");
    assert_eq!(std::fs::read(path).unwrap(), MARK);
    backend.close().await;

    let refused = restored(&file, &data).unwrap_err().to_string();
    assert!(refused.contains("not empty"), "{refused}");
}

#[tokio::test]
async fn without_files_they_are_listed_and_the_restore_says_what_is_missing_and_where_it_was() {
    let (fixture, _) = archive().await;
    let place = tempfile::tempdir().unwrap();
    let (file, data) = (place.path().join("a.tar"), place.path().join("data"));
    let said = backed_up(&BackupArgs { without_files: true, ..args(&fixture, &file) }).unwrap();
    assert!(said.contains("listed without their bytes") && said.contains("Now copy file:///"), "{said}");
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(MARK.len()).any(|window| window == MARK));
    let said = restored(&file, &data).unwrap();
    assert!(said.contains("Missing: 1 file (57 B); copy file:///"), "{said}");
    assert_eq!(names(&data), [DATABASE_FILE]);
}

#[tokio::test]
async fn nothing_is_written_over_and_nothing_into_the_archive_itself() {
    let (fixture, _) = archive().await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.tar");
    std::fs::write(&file, "mine").unwrap();
    let refused = backed_up(&args(&fixture, &file)).unwrap_err().to_string();
    assert!(refused.contains("--force") && std::fs::read(&file).unwrap() == b"mine", "{refused}");
    backed_up(&BackupArgs { force: true, ..args(&fixture, &file) }).unwrap();
    assert!(std::fs::metadata(&file).unwrap().len() > 4096);

    let data = fixture.data().data.data;
    for (path, says) in [
        (data.join("files/a.tar"), "own files"),
        (data.join("files/slack/a.tar"), "own files"),
        (place.path().to_owned(), "is a folder"),
        (place.path().join("nowhere/a.tar"), "cannot write to"),
    ] {
        let refused = format!("{:#}", backed_up(&args(&fixture, &path)).unwrap_err());
        assert!(refused.contains(says) && !refused.contains('\n'), "{refused}");
    }
    let itself = BackupArgs { force: true, ..args(&fixture, &data.join(DATABASE_FILE)) };
    assert!(backed_up(&itself).unwrap_err().to_string().contains("the archive itself"));
    assert_eq!(names(place.path()), ["a.tar"]);
}

#[tokio::test]
async fn one_backup_to_a_name_at_a_time_and_a_killed_one_does_not_block_the_next() {
    let (fixture, _) = archive().await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.tar");
    let partial = place.path().join(".a.tar.partial");
    let other = private().open(&partial).unwrap();
    other.lock().unwrap();
    let refused = backed_up(&args(&fixture, &file)).unwrap_err().to_string();
    assert!(refused.contains("another backup"), "{refused}");
    other.unlock().unwrap();
    // The process was killed between its two names: what it left is a backup.
    std::fs::write(&partial, "precious").unwrap();
    std::fs::hard_link(&partial, place.path().join("kept.tar")).unwrap();
    std::fs::write(place.path().join(".a.tar.snapshot"), "half").unwrap();
    backed_up(&args(&fixture, &file)).unwrap();
    assert_eq!(names(place.path()), ["a.tar", "kept.tar"]);
    assert_eq!(std::fs::read(place.path().join("kept.tar")).unwrap(), b"precious");
}

#[tokio::test]
async fn other_bytes_than_were_packed_are_refused_and_leave_nothing() {
    let (fixture, _) = archive().await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.tar");
    backed_up(&args(&fixture, &file)).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let in_file = whole.windows(MARK.len()).position(|window| window == MARK).unwrap();
    // The first page of the database, its middle, and the file.
    for (at, says) in [(512 + 100, "annalist.db"), (in_file / 2, "annalist.db"), (in_file, "slack/T1/C1")] {
        let mut tampered = whole.clone();
        tampered[at] ^= 1;
        std::fs::write(&file, &tampered).unwrap();
        for empty in [false, true] {
            let data = place.path().join("data");
            if empty {
                std::fs::create_dir(&data).unwrap();
            }
            let refused = format!("{:#}", restored(&file, &data).unwrap_err());
            assert!(refused.contains("not those that were packed") && refused.contains(says), "{refused}");
            assert!(!refused.contains('\n'));
            assert_eq!(names(place.path()), if empty { vec!["a.tar", "data"] } else { vec!["a.tar"] });
            if empty {
                assert!(names(&data).is_empty());
                std::fs::remove_dir(&data).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_forged_database_with_matching_hashes_is_refused() {
    let (fixture, _) = archive().await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.tar");
    backed_up(&args(&fixture, &file)).unwrap();
    let packed = Packed::read(File::open(&file).unwrap()).unwrap();
    let mut list = serde_json::to_value(&packed.manifest).unwrap();
    let forged = b"SQLite format 3\0 and nothing that follows from it";
    list["files"] = json!([]);
    list["database"]["bytes"] = json!(forged.len());
    list["database"]["sha256"] = json!(to_hex(&Sha256::digest(forged)));
    let list = list.to_string();
    let forgery = place.path().join("forged.tar");
    let mut packing = BackupTar { tar: tar::Builder::new(File::create(&forgery).unwrap()), mtime_s: 1 };
    packing.append(DATABASE_FILE, forged.len() as u64, &forged[..]).unwrap();
    packing.append(MANIFEST, list.len() as u64, list.as_bytes()).unwrap();
    packing.tar.into_inner().unwrap();
    let refused = format!("{:#}", restored(&forgery, &place.path().join("data")).unwrap_err());
    assert!(refused.contains("the database in this backup cannot be used"), "{refused}");
    assert_eq!(names(place.path()), ["a.tar", "forged.tar"]);
}

#[tokio::test]
async fn on_aws_both_say_what_to_use_there() {
    let mut backend = BackendArgs::embedded(Path::new("nowhere"));
    backend.backend = BackendKind::Aws;
    let file = PathBuf::from("a.tar");
    let backup =
        BackupArgs { file: file.clone(), force: false, without_files: false, backend: backend.clone() };
    for refused in [
        backed_up(&backup).unwrap_err(),
        restore::run(&RestoreArgs { file, backend }, &mut Vec::new()).unwrap_err(),
    ] {
        let line = refused.to_string();
        assert!(refused.is::<ConfigError>() && line.contains("point-in-time recovery"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

//! Tests of backup and restore together: `restore` reads the file that `backup` wrote.

use bytes::Bytes;
use embedded::FILES_FOLDER;
use ports::archive::{ArchiveExt, ItemKey};
use ports::clock::{ManualClock, SystemClock, TimestampMs};
use ports::files::FileKey;
use process::config::backend::Backend;
use rules::file::image::{ImageJob, ImageOwner};
use rules::file::row;
use rules::file::row::{Share, StoredBytes};
use rules::project;
use serde_json::json;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

use super::*;
use crate::fixture::{CliFixture, parsed};
use crate::operate::packing::Packed;
use crate::operate::restore::{self, RestoreArgs};
use crate::operate::token::{self, CreateArgs, TokenCommand};

const MARK: &[u8] = b"the bytes of a file that can be found in the backup again";

/// An archive with a message, a stored file, and an unfinished one.
async fn archive() -> (CliFixture, FileId) {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000001.000000", "kept").await;
    let (team, file) = (TeamId::parse("T1").unwrap(), FileId::parse("F1").unwrap());
    let share =
        Share { channel: ChannelId::parse("C1").unwrap(), ts: Ts::parse("1700000001.000000").unwrap() };
    let key = FileKey::shared(&team, &share.channel, &share.ts, &file);
    let files = fixture.backend.files();
    let mut writer = files.create(&key).await.unwrap();
    writer.write(Bytes::from_static(MARK)).await.unwrap();
    writer.publish().await.unwrap();
    let stored_bytes = StoredBytes {
        key: key.clone(),
        source: "own".into(),
        size_bytes: MARK.len() as u64,
        sha256: String::new(),
    };
    fixture.archive().write(&row::stored(&team, &file, &stored_bytes)).await.unwrap();
    // Never published.
    std::mem::forget(files.create(&FileKey::image(&team, "https://example.com/half")).await.unwrap());
    (fixture, file)
}

fn args(fixture: &CliFixture, file: &Path) -> BackupArgs {
    BackupArgs { file: file.to_owned(), force: false, without_files: false, backend: fixture.data() }
}

fn run_backup(args: &BackupArgs) -> anyhow::Result<String> {
    let mut out = Vec::new();
    run(args, &*ManualClock::starting_at(TimestampMs(1_795_178_096_000)), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn run_restore(file: &Path, data: &Path) -> anyhow::Result<String> {
    let args = RestoreArgs { file: file.to_owned(), until: None, backend: BackendArgs::embedded(data) };
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
async fn a_restored_archive_reads_as_the_original_with_the_new_file_paths() {
    let (fixture, file_id) = archive().await;
    let temp_dir = tempfile::tempdir().unwrap();
    let (file, data) = (temp_dir.path().join("a.tar"), temp_dir.path().join("it's new"));
    let create = TokenCommand::Create(parsed::<CreateArgs>(&["--name", "ci"]).unwrap());
    token::run(fixture.archive(), fixture.clock(), &create, &mut Vec::new()).await.unwrap();
    let output = run_backup(&args(&fixture, &file)).unwrap();
    assert!(output.contains("1 file (57 B)") && !output.contains("Left out"), "{output}");
    assert_eq!(names(temp_dir.path()), ["a.tar"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    let output = run_restore(&file, &data).unwrap();
    assert!(output.contains("1 token of a reader is as at the time of the backup"), "{output}");
    assert!(output.contains("and 1 file (57 B)") && output.contains("2026-11-20T"), "{output}");
    assert_eq!(names(temp_dir.path()), ["a.tar", "it's new"]);
    assert_eq!(names(&data), [DATABASE_FILE, FILES_FOLDER]);
    let backend = Backend::open_existing(&BackendArgs::embedded(&data), SystemClock::shared()).await.unwrap();
    let key = ItemKey::file(&TeamId::parse("T1").unwrap(), &file_id);
    let row = backend.archive().get(&key).await.unwrap().unwrap();
    let row = project::file(&row).unwrap().into_json();
    let row = project::address(&row, &BackendArgs::embedded(&data).files_uri().unwrap()).into_owned();
    let path =
        row["uri"].as_str().unwrap().strip_prefix("file://").unwrap().replace("%27", "'").replace("%20", " ");
    assert!(Path::new(&path).starts_with(&data), "{path}");
    assert_eq!(std::fs::read(path).unwrap(), MARK);
    backend.close().await;

    let error = run_restore(&file, &data).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
}

/// Stores bytes that no row names.
async fn store_unnamed(fixture: &CliFixture, key: &str) {
    let files = fixture.backend.files();
    let mut writer = files.create(&FileKey::parse(key).unwrap()).await.unwrap();
    writer.write(Bytes::from_static(b"unnamed")).await.unwrap();
    writer.publish().await.unwrap();
}

#[tokio::test]
async fn a_backup_leaves_out_what_no_row_names() {
    let (fixture, _) = archive().await;
    for key in [
        "slack/T1/C1/1700000001.000000/F2",
        "slack/T1/C1/1700000001.000000/F1.0011aabb",
        "slack/T1/images/00112233445566778899aabbccddeeff",
        "slack/T9/C1/1700000001.000000/F1",
    ] {
        store_unnamed(&fixture, key).await;
    }
    // The pictures of a person: their current one, which a job may be storing now, and an earlier one.
    let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
    let picture = |url: &str| {
        let job = ImageJob { team: team.clone(), owner: ImageOwner::User(user.clone()), url: url.to_owned() };
        (job.stored(&FileKey::image(&team, url)), FileKey::image(&team, url))
    };
    let (update, key) = picture("https://example.com/earlier.png");
    store_unnamed(&fixture, key.as_str()).await;
    fixture.archive().write(&update).await.unwrap();
    store_unnamed(&fixture, "slack/of.another.version").await;
    let temp_dir = tempfile::tempdir().unwrap();
    let (file, data) = (temp_dir.path().join("a.tar"), temp_dir.path().join("data"));
    let output = run_backup(&args(&fixture, &file)).unwrap();
    assert!(output.contains("3 files (71 B)"), "{output}");
    assert!(output.contains("Left out, because no row names them: 4 files (28 B)."), "{output}");
    run_restore(&file, &data).unwrap();
    assert_eq!(names(&data.join("files/slack")), ["T1", "of.another.version"]);
    assert_eq!(names(&data.join("files/slack/T1/C1/1700000001.000000")), ["F1"]);
    assert_eq!(names(&data.join("files/slack/T1/images")).len(), 1);
}

#[tokio::test]
async fn a_backup_without_files_lists_them_and_restore_reports_the_missing_ones() {
    let (fixture, _) = archive().await;
    let temp_dir = tempfile::tempdir().unwrap();
    let (file, data) = (temp_dir.path().join("a.tar"), temp_dir.path().join("data"));
    let output = run_backup(&BackupArgs { without_files: true, ..args(&fixture, &file) }).unwrap();
    assert!(
        output.contains("listed without their bytes") && output.contains("Now copy file:///"),
        "{output}"
    );
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(MARK.len()).any(|window| window == MARK));
    let output = run_restore(&file, &data).unwrap();
    assert!(output.contains("Missing: 1 file (57 B); copy file:///"), "{output}");
    assert_eq!(names(&data), [DATABASE_FILE]);
}

#[tokio::test]
async fn a_backup_overwrites_no_file_without_force_and_never_the_archive() {
    let (fixture, _) = archive().await;
    let temp_dir = tempfile::tempdir().unwrap();
    let file = temp_dir.path().join("a.tar");
    std::fs::write(&file, "mine").unwrap();
    let error = run_backup(&args(&fixture, &file)).unwrap_err().to_string();
    assert!(error.contains("--force") && std::fs::read(&file).unwrap() == b"mine", "{error}");
    run_backup(&BackupArgs { force: true, ..args(&fixture, &file) }).unwrap();
    assert!(std::fs::metadata(&file).unwrap().len() > 4096);

    let data = fixture.data().data.data;
    for (path, expected) in [
        (data.join("files/a.tar"), "in the data folder"),
        (data.join("files/slack/a.tar"), "in the data folder"),
        (temp_dir.path().to_owned(), "is a folder"),
        (temp_dir.path().join("nowhere/a.tar"), "cannot write to"),
    ] {
        let error = format!("{:#}", run_backup(&args(&fixture, &path)).unwrap_err());
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    let itself = BackupArgs { force: true, ..args(&fixture, &data.join(DATABASE_FILE)) };
    assert!(run_backup(&itself).unwrap_err().to_string().contains("in the data folder"));
    assert_eq!(names(temp_dir.path()), ["a.tar"]);
}

#[tokio::test]
async fn concurrent_backups_to_one_name_are_refused_and_a_killed_one_does_not_block_the_next() {
    let (fixture, _) = archive().await;
    let temp_dir = tempfile::tempdir().unwrap();
    let file = temp_dir.path().join("a.tar");
    let partial = temp_dir.path().join(".a.tar.partial");
    let other = private_file_options().open(&partial).unwrap();
    other.lock().unwrap();
    let error = run_backup(&args(&fixture, &file)).unwrap_err().to_string();
    assert!(error.contains("another backup"), "{error}");
    other.unlock().unwrap();
    // The process was killed while the file had both names, so the partial file is a complete backup.
    std::fs::write(&partial, "precious").unwrap();
    std::fs::hard_link(&partial, temp_dir.path().join("kept.tar")).unwrap();
    std::fs::write(temp_dir.path().join(".a.tar.snapshot"), "half").unwrap();
    run_backup(&args(&fixture, &file)).unwrap();
    assert_eq!(names(temp_dir.path()), ["a.tar", "kept.tar"]);
    assert_eq!(std::fs::read(temp_dir.path().join("kept.tar")).unwrap(), b"precious");
}

#[tokio::test]
async fn a_tampered_backup_is_refused_and_leaves_no_files() {
    let (fixture, _) = archive().await;
    let temp_dir = tempfile::tempdir().unwrap();
    let file = temp_dir.path().join("a.tar");
    run_backup(&args(&fixture, &file)).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let in_file = whole.windows(MARK.len()).position(|window| window == MARK).unwrap();
    // The first page of the database, its middle, and the file.
    for (offset, expected) in
        [(512 + 100, "annalist.db"), (in_file / 2, "annalist.db"), (in_file, "slack/T1/C1")]
    {
        let mut tampered = whole.clone();
        tampered[offset] ^= 1;
        std::fs::write(&file, &tampered).unwrap();
        for empty in [false, true] {
            let data = temp_dir.path().join("data");
            if empty {
                std::fs::create_dir(&data).unwrap();
            }
            let error = format!("{:#}", run_restore(&file, &data).unwrap_err());
            assert!(error.contains("not those that were packed") && error.contains(expected), "{error}");
            assert!(!error.contains('\n'));
            assert_eq!(names(temp_dir.path()), if empty { vec!["a.tar", "data"] } else { vec!["a.tar"] });
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
    let temp_dir = tempfile::tempdir().unwrap();
    let file = temp_dir.path().join("a.tar");
    run_backup(&args(&fixture, &file)).unwrap();
    let packed = Packed::read(File::open(&file).unwrap()).unwrap();
    let mut list = serde_json::to_value(&packed.manifest).unwrap();
    let forged = b"SQLite format 3\0 and nothing that follows from it";
    list["files"] = json!([]);
    list["database"]["bytes"] = json!(forged.len());
    list["database"]["sha256"] = json!(to_hex(&Sha256::digest(forged)));
    let list = list.to_string();
    let forgery = temp_dir.path().join("forged.tar");
    let mut packing = BackupTar { tar: tar::Builder::new(File::create(&forgery).unwrap()), mtime_s: 1 };
    packing.append(DATABASE_FILE, forged.len() as u64, &forged[..]).unwrap();
    packing.append(MANIFEST, list.len() as u64, list.as_bytes()).unwrap();
    packing.tar.into_inner().unwrap();
    let error = format!("{:#}", run_restore(&forgery, &temp_dir.path().join("data")).unwrap_err());
    assert!(error.contains("the database in this backup cannot be used"), "{error}");
    assert_eq!(names(temp_dir.path()), ["a.tar", "forged.tar"]);
}

#[tokio::test]
async fn backup_and_restore_name_the_aws_alternatives() {
    let mut backend = BackendArgs::embedded(Path::new("nowhere"));
    backend.backend = BackendKind::Aws;
    let file = PathBuf::from("a.tar");
    let backup =
        BackupArgs { file: file.clone(), force: false, without_files: false, backend: backend.clone() };
    for error in [
        run_backup(&backup).unwrap_err(),
        restore::run(&RestoreArgs { file, until: None, backend }, &mut Vec::new()).unwrap_err(),
    ] {
        let line = error.to_string();
        assert!(error.is::<ConfigError>() && line.contains("point-in-time recovery"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

use std::sync::Arc;

use embedded::Database;
use ports::archive::ArchiveExt;
use ports::clock::SystemClock;
use rules::file::row::{StoredBytes, stored};
use slack::ids::{FileId, TeamId};

use super::*;
use crate::fixture::CliFixture;

/// Another place for files.
fn place() -> (Arc<dyn Files>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Database::open(folder.path(), SystemClock::shared()).unwrap().files(), folder)
}

fn key(file: &str) -> FileKey {
    FileKey::parse(&format!("slack/T1/C1/1700000000.000100/{file}")).unwrap()
}

async fn put(files: &dyn Files, file: &str, bytes: &'static str) {
    let mut writer = files.create(&key(file)).await.unwrap();
    writer.write(bytes.into()).await.unwrap();
    writer.publish().await.unwrap();
}

/// Stores a row that says that a file has these bytes.
async fn say_stored(archive: &dyn Archive, file: &str, bytes: &str) {
    let bytes = StoredBytes {
        key: key(file),
        source: "own".into(),
        size_bytes: bytes.len() as u64,
        sha256: to_hex(&Sha256::digest(bytes)),
    };
    let (team, file) = (TeamId::parse("T1").unwrap(), FileId::parse(file).unwrap());
    archive.write(&stored(&team, &file, &bytes)).await.unwrap();
}

async fn content(files: &dyn Files, file: &str) -> Option<String> {
    let mut reader = files.open(&key(file)).await.unwrap()?;
    let mut content = Vec::new();
    while let Some(chunk) = reader.next().await.unwrap() {
        content.extend_from_slice(&chunk);
    }
    Some(String::from_utf8(content).unwrap())
}

async fn move_all(fixture: &CliFixture, to: &dyn Files) -> (MoveCounts, Vec<String>) {
    let mut named = Vec::new();
    let mut damaged = |key: &FileKey, why: &str| {
        named.push(format!("{key}: {why}"));
        Ok(())
    };
    let from = fixture.backend.files();
    let counts = move_files(&*from, to, fixture.archive(), &mut damaged).await.unwrap();
    (counts, named)
}

#[tokio::test]
async fn every_whole_file_moves_once_and_a_damaged_one_stays() {
    let fixture = CliFixture::open().await;
    let (from, (to, _folder)) = (fixture.backend.files(), place());
    for (file, bytes, said) in [
        ("F1", "whole", Some("whole")),
        ("F2", "no row", None),
        ("F3", "changed", Some("CHANGED")),
        ("F4", "short", Some("shorter")),
        ("F5", "half moved", Some("half moved")),
        ("F6", "of this place", None),
    ] {
        put(&*from, file, bytes).await;
        if let Some(said) = said {
            say_stored(fixture.archive(), file, said).await;
        }
    }
    put(&*to, "F5", "half moved").await;
    put(&*to, "F6", "of that place").await;
    let (counts, named) = move_all(&fixture, &*to).await;
    assert_eq!(counts, MoveCounts { files: 6, bytes: 46, moved: 2, already_there: 1, damaged: 3 });
    let mut files: Vec<&str> = named.iter().map(|line| &line[line.find("/F").unwrap() + 1..][..2]).collect();
    files.sort_unstable();
    assert_eq!(files, ["F3", "F4", "F6"], "{named:?}");
    for (file, there, here) in [
        ("F1", Some("whole"), None),
        ("F2", Some("no row"), None),
        ("F3", None, Some("changed")),
        ("F4", None, Some("short")),
        ("F5", Some("half moved"), None),
        ("F6", Some("of that place"), Some("of this place")),
    ] {
        assert_eq!(content(&*to, file).await.as_deref(), there, "{file}");
        assert_eq!(content(&*from, file).await.as_deref(), here, "{file}");
    }
    let (again, _) = move_all(&fixture, &*to).await;
    assert_eq!((again.files, again.moved, again.damaged), (3, 0, 3));
}

/// A place whose files are erased in the other one as soon as they are published here.
struct ErasingPlace {
    here: Arc<dyn Files>,
    there: Arc<dyn Files>,
}

#[async_trait::async_trait]
impl Files for ErasingPlace {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn ports::files::FileWriter>, FilesError> {
        self.here.create(key).await
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        self.there.delete(key).await?;
        self.here.open(key).await
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        self.here.delete(key).await
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        self.here.list(after).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.here.ready().await
    }
}

#[tokio::test]
async fn a_file_that_is_erased_while_it_moves_is_in_neither_place() {
    let fixture = CliFixture::open().await;
    let (here, _folder) = place();
    put(&*fixture.backend.files(), "F1", "erased").await;
    let erasing = ErasingPlace { here: Arc::clone(&here), there: fixture.backend.files() };
    let (counts, _) = move_all(&fixture, &erasing).await;
    assert_eq!(counts, MoveCounts::default());
    assert_eq!((content(&*here, "F1").await, content(&*fixture.backend.files(), "F1").await), (None, None));
}

//! `annalist publish --upload`: copies what changed on a site to a bucket. The state knows what is there.
//!
//! What left the site is deleted first. Then the files are written, those that others link to before those that
//! link to them, and what a run wrote is noted in batches, so that a run that is killed goes on there.

use std::fs;
use std::path::Path;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use process::config::bucket::BucketPlace;
use rusqlite::params;
use tokio::sync::watch;
use viewer::public_links::{ASSETS, CHANNELS, FEED, FILES, INDEX, PICTURES, SEARCH};

use super::PublishError;
use super::state::SiteState;

/// Files that are sent at once: the time goes by in waiting for the store.
const BATCH_FILES: usize = 16;

/// Bytes that are sent at once, for the memory. A larger file is sent alone.
const BATCH_BYTES: u64 = 64 * 1024 * 1024;

/// How long browsers keep a file whose name changes with its content, and any other.
const FOREVER: &str = "max-age=31536000, immutable";
const SHORTLY: &str = "max-age=300";

/// Where the state keeps the target, and the paths that are in the bucket and not on the site any more.
const TARGET: &str = "upload:target";
const GONE: &str = "upload:gone:";

/// Where the files of a site go.
#[async_trait]
pub(super) trait SiteStore: Sync {
    /// Writes a file, or replaces it.
    async fn put(&self, path: &str, content: Vec<u8>, headers: FileHeaders) -> Result<(), String>;

    /// Deletes a file, if it exists.
    async fn delete(&self, path: &str) -> Result<(), String>;
}

/// What the store tells browsers about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeaders {
    pub(super) content_type: &'static str,
    pub(super) cache_control: &'static str,
}

/// What was changed in the bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UploadCounts {
    pub(super) uploaded: u64,
    pub(super) removed: u64,
    /// Whether it was asked to end before it was done.
    pub(super) is_interrupted: bool,
}

#[cfg(feature = "s3")]
#[async_trait]
impl SiteStore for s3::Bucket {
    async fn put(&self, path: &str, content: Vec<u8>, headers: FileHeaders) -> Result<(), String> {
        let FileHeaders { content_type, cache_control } = headers;
        let put = self.replace(path, content.into(), content_type, cache_control);
        put.await.map_err(|error| error.to_string())
    }

    async fn delete(&self, path: &str) -> Result<(), String> {
        self.remove(path).await.map_err(|error| error.to_string())
    }
}

/// Brings the bucket up to date with the folder.
#[cfg(feature = "s3")]
pub(super) async fn to_bucket(
    state: &mut SiteState,
    folder: &Path,
    target: &BucketPlace,
    shutdown: &watch::Receiver<bool>,
) -> Result<UploadCounts, PublishError> {
    let bucket = target.connect().await;
    upload(state, folder, &target.to_string(), &bucket, shutdown).await
}

/// No target is parsed in such a build.
#[cfg(not(feature = "s3"))]
#[expect(clippy::unused_async, reason = "a bucket is awaited")]
pub(super) async fn to_bucket(
    _: &mut SiteState,
    _: &Path,
    _: &BucketPlace,
    _: &watch::Receiver<bool>,
) -> Result<UploadCounts, PublishError> {
    Ok(UploadCounts::default())
}

#[cfg_attr(not(any(feature = "s3", test)), expect(dead_code, reason = "only a build with S3 uploads"))]
async fn upload(
    state: &mut SiteState,
    folder: &Path,
    target: &str,
    store: &dyn SiteStore,
    shutdown: &watch::Receiver<bool>,
) -> Result<UploadCounts, PublishError> {
    if state.meta(TARGET)?.as_deref() != Some(target) {
        state.atomically(|db| {
            db.execute("UPDATE page SET uploaded = NULL", [])?;
            db.execute("DELETE FROM meta WHERE name LIKE 'upload:gone:%'", [])?;
            super::state::set_meta(db, TARGET, target)
        })?;
    }
    let mut counts = UploadCounts::default();
    let gone = "SELECT substr(name, length(?1) + 1) FROM meta WHERE name LIKE ?1 || '%' ORDER BY name";
    for paths in state.texts(gone, &[GONE])?.chunks(BATCH_FILES) {
        if *shutdown.borrow() {
            return Ok(UploadCounts { is_interrupted: true, ..counts });
        }
        let known = "SELECT path FROM page WHERE path = ?1";
        let mut removed = Vec::new();
        for path in paths {
            // A page that came back is written below.
            if state.texts(known, &[path])?.is_empty() {
                removed.push(path);
            }
        }
        counts.removed += removed.len() as u64;
        try_join_all(removed.into_iter().map(|path| store.delete(path)))
            .await
            .map_err(PublishError::Upload)?;
        state.atomically(|db| {
            paths.iter().try_for_each(|path| {
                db.execute("DELETE FROM meta WHERE name = ?1", [format!("{GONE}{path}")]).map(drop)
            })
        })?;
    }
    let changed = "SELECT path FROM page WHERE hash IS NOT NULL AND uploaded IS NOT hash";
    let mut changed = state.texts(changed, &[])?;
    changed.sort_by_cached_key(|path| (rank(path), path.clone()));
    for paths in batches(folder, changed) {
        if *shutdown.borrow() {
            return Ok(UploadCounts { is_interrupted: true, ..counts });
        }
        let puts = paths.iter().map(async |path| {
            let content = fs::read(folder.join(path)).map_err(|error| error.to_string())?;
            store.put(path, content, headers(path)).await
        });
        try_join_all(puts).await.map_err(PublishError::Upload)?;
        counts.uploaded += paths.len() as u64;
        state.atomically(|db| {
            paths.iter().try_for_each(|path| {
                db.prepare_cached("UPDATE page SET uploaded = hash WHERE path = ?1")?
                    .execute(params![path])
                    .map(drop)
            })
        })?;
    }
    Ok(counts)
}

/// Cuts the files into batches.
fn batches(folder: &Path, paths: Vec<String>) -> Vec<Vec<String>> {
    let mut batches: Vec<Vec<String>> = Vec::new();
    let mut batch_bytes = 0;
    for path in paths {
        // One that is missing fails when it is read.
        let bytes = fs::metadata(folder.join(&path)).map_or(0, |file| file.len());
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_FILES && batch_bytes + bytes <= BATCH_BYTES => {
                batch.push(path);
                batch_bytes += bytes;
            }
            _ => {
                batches.push(vec![path]);
                batch_bytes = bytes;
            }
        }
    }
    batches
}

/// The order in which files are written: those that others need come first.
fn rank(path: &str) -> u8 {
    let parts: Vec<&str> = path.split('/').collect();
    let name = parts.last().copied().unwrap_or_default();
    match parts.as_slice() {
        [ASSETS | FILES | PICTURES, ..] => 0,
        [CHANNELS, _, _, _] => 1,
        [CHANNELS, _, _] if name != INDEX && !name.ends_with(".xml") => 2,
        [CHANNELS, ..] => 3,
        [SEARCH, _, ..] if parts.len() > 2 && !name.ends_with(".json") => 4,
        [SEARCH, _, _] => 5,
        [SEARCH, ..] => 6,
        _ => 7,
    }
}

fn headers(path: &str) -> FileHeaders {
    let content_type = match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        Some("png") => "image/png",
        Some("jpg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("mp4") => "video/mp4",
        Some("webm") => "video/webm",
        Some("mp3") => "audio/mpeg",
        Some("ogg") => "audio/ogg",
        Some("wav") => "audio/wav",
        Some("flac") => "audio/flac",
        Some("m4a") => "audio/mp4",
        Some("pdf") => "application/pdf",
        Some("xml") if path.ends_with(FEED) => "application/atom+xml; charset=utf-8",
        Some("xml") => "application/xml; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    };
    let has_hash = path.split('/').next() == Some(ASSETS)
        || ["fragment", "index", "meta"].iter().any(|kind| path.ends_with(&format!(".pf_{kind}")));
    FileHeaders { content_type, cache_control: if has_hash { FOREVER } else { SHORTLY } }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::super::state::SiteUnit;
    use super::super::write::{DoneUnit, SiteFile, SiteWriter};
    use super::*;

    /// A bucket in memory, which refuses writes after a number of them.
    struct MemoryStore {
        files: Mutex<BTreeMap<String, Vec<u8>>>,
        /// The paths of the writes, in order.
        log: Mutex<Vec<String>>,
        writes_left: Mutex<usize>,
    }

    impl MemoryStore {
        fn new() -> Self {
            Self { files: Mutex::default(), log: Mutex::default(), writes_left: Mutex::new(usize::MAX) }
        }

        fn taken_log(&self) -> Vec<String> {
            std::mem::take(&mut self.log.lock().unwrap())
        }
    }

    #[async_trait]
    impl SiteStore for MemoryStore {
        async fn put(&self, path: &str, content: Vec<u8>, _: FileHeaders) -> Result<(), String> {
            let mut left = self.writes_left.lock().unwrap();
            *left = left.checked_sub(1).ok_or("the bucket is gone")?;
            self.log.lock().unwrap().push(path.to_owned());
            self.files.lock().unwrap().insert(path.to_owned(), content);
            Ok(())
        }

        async fn delete(&self, path: &str) -> Result<(), String> {
            self.log.lock().unwrap().push(format!("-{path}"));
            self.files.lock().unwrap().remove(path);
            Ok(())
        }
    }

    struct UploadedSite {
        folder: tempfile::TempDir,
        state: SiteState,
        writer: SiteWriter,
        store: MemoryStore,
    }

    impl UploadedSite {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let state = SiteState::open(folder.path()).unwrap();
            let writer = SiteWriter::new(Some(folder.path().to_owned())).unwrap();
            Self { folder, state, writer, store: MemoryStore::new() }
        }

        /// Gives the site these files and no others.
        fn write(&mut self, files: &[(&str, &str)]) {
            let unit = SiteUnit::default();
            for (path, content) in files {
                let file =
                    SiteFile { path: (*path).into(), content: (*content).into(), ..SiteFile::default() };
                self.writer.put(&mut self.state, &unit, file).unwrap();
            }
            let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
            self.writer.finish(&mut self.state, DoneUnit { unit, paths, ..DoneUnit::default() }).unwrap();
            self.writer.flush(&mut self.state).unwrap();
        }

        async fn upload(&mut self, target: &str) -> Result<UploadCounts, PublishError> {
            let going_on = watch::channel(false).1;
            upload(&mut self.state, self.folder.path(), target, &self.store, &going_on).await
        }

        fn stored(&self) -> Vec<(String, String)> {
            let files = self.store.files.lock().unwrap();
            files
                .iter()
                .map(|(path, content)| (path.clone(), String::from_utf8(content.clone()).unwrap()))
                .collect()
        }
    }

    #[tokio::test]
    async fn only_what_changed_is_sent_and_what_left_the_site_is_deleted_first() {
        let mut site = UploadedSite::new();
        site.write(&[
            ("index.html", "a"),
            ("c/a/2026-11.html", "b"),
            ("c/a/2026-11/1.html", "c"),
            ("c/a/index.html", "d"),
        ]);
        let counts = site.upload("s3://b").await.unwrap();
        assert_eq!((counts.uploaded, counts.removed), (4, 0));
        assert_eq!(
            site.store.taken_log(),
            ["c/a/2026-11/1.html", "c/a/2026-11.html", "c/a/index.html", "index.html"]
        );
        site.write(&[("index.html", "a"), ("c/a/2026-11.html", "changed"), ("c/a/index.html", "d")]);
        site.upload("s3://b").await.unwrap();
        assert_eq!(site.store.taken_log(), ["-c/a/2026-11/1.html", "c/a/2026-11.html"]);
        assert_eq!(site.upload("s3://b").await.unwrap(), UploadCounts::default());
        // A file that left and came back between two uploads.
        site.write(&[("index.html", "a")]);
        site.write(&[("index.html", "a"), ("c/a/index.html", "d")]);
        site.upload("s3://b").await.unwrap();
        assert_eq!(site.store.taken_log(), ["-c/a/2026-11.html", "c/a/index.html"]);
        // Another place has nothing yet.
        assert_eq!(site.upload("s3://b/p").await.unwrap().uploaded, 2);
    }

    #[tokio::test]
    async fn an_upload_that_fails_goes_on_where_it_ended() {
        let mut site = UploadedSite::new();
        let names: Vec<String> = (0..40).map(|n| format!("c/a/2026-11/{n:02}.html")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
        site.write(&files);
        *site.store.writes_left.lock().unwrap() = 20;
        assert!(matches!(site.upload("s3://b").await, Err(PublishError::Upload(_))));
        *site.store.writes_left.lock().unwrap() = usize::MAX;
        assert_eq!(site.upload("s3://b").await.unwrap().uploaded, 24, "a batch of 16 was noted");
        let expected: Vec<(String, String)> =
            names.iter().map(|name| (name.clone(), "x".to_owned())).collect();
        assert_eq!(site.stored(), expected);
        // A run that cannot read the archive's changes forgets everything but the files.
        site.state.atomically(super::super::state::forget_all).unwrap();
        site.write(&files[1..]);
        site.upload("s3://b").await.unwrap();
        assert_eq!(site.stored(), expected[1..]);
    }

    #[test]
    fn every_file_has_its_type_and_time() {
        for (path, content_type, cache_control) in [
            ("index.html", "text/html; charset=utf-8", SHORTLY),
            ("assets/style-0.css", "text/css; charset=utf-8", FOREVER),
            ("c/a/feed.xml", "application/atom+xml; charset=utf-8", SHORTLY),
            ("sitemap.xml", "application/xml; charset=utf-8", SHORTLY),
            ("files/F1.png", "image/png", SHORTLY),
            ("files/F1.bin", "application/octet-stream", SHORTLY),
            ("search/2026/fragment/en_1.pf_fragment", "application/octet-stream", FOREVER),
            ("search/2026/pagefind-entry.json", "application/json", SHORTLY),
            ("search/2026/pagefind.js", "text/javascript; charset=utf-8", SHORTLY),
        ] {
            assert_eq!(headers(path), FileHeaders { content_type, cache_control }, "{path}");
        }
        let order = [
            "search/2026/index/1.pf_index",
            "search/2026/pagefind-entry.json",
            "search/parts.json",
            "robots.txt",
        ];
        assert!(order.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
    }
}

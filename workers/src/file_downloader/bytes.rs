//! Receives a file's bytes: counts and hashes them, checks that they are the requested file, and stores them.

use metrics::counter;
use ports::files::{FileKey, FilesError, Published};
use ports::metrics::FILE_BYTES;
use rules::file::row::StoredBytes;
use rules::file::{FileObject, FileVerdict};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack_api::download::Download;

use super::FileDownloader;
use super::fetch::{Fetched, Trouble, login_needed};

/// Enough of a body to recognize an HTML page.
pub(crate) const HEAD_BYTES: usize = 512;

/// Hash and length of the bytes received so far.
#[derive(Default)]
pub(crate) struct DigestedBytes {
    hash: Sha256,
    /// The length.
    pub(crate) size_bytes: u64,
}

impl DigestedBytes {
    /// Adds received bytes.
    pub(crate) fn add(&mut self, chunk: &[u8]) {
        self.hash.update(chunk);
        self.size_bytes = self.size_bytes.saturating_add(chunk.len() as u64);
    }

    /// The record of the stored bytes.
    pub(crate) fn into_held_bytes(self, key: &FileKey, source: String) -> StoredBytes {
        let sha256 = to_hex(&self.hash.finalize());
        StoredBytes { key: key.clone(), source, size_bytes: self.size_bytes, sha256 }
    }
}

impl FileDownloader {
    /// Stores the body of a successful response. The file becomes visible only once it is complete.
    pub(super) async fn store_body(
        &self,
        object: &FileObject,
        key: &FileKey,
        source: &str,
        mut download: Download,
    ) -> Result<Fetched, Trouble> {
        let expects_page = object.may_be_html();
        let login_page = || Ok(Fetched::Failed(login_needed("Slack sent a login page")));
        if !expects_page && download.content_type.as_deref() == Some("text/html") {
            return login_page();
        }
        let max_bytes = self.settings.max_file_bytes;
        let too_big = || Ok(Fetched::Verdict(FileVerdict::TooBig));
        if download.size_bytes.is_some_and(|announced| announced > max_bytes) {
            return too_big();
        }
        let mut writer = self.files.create(key).await?;
        let (mut digest, mut head) = (DigestedBytes::default(), Vec::with_capacity(HEAD_BYTES));
        loop {
            let chunk = download.chunk().await.map_err(|error| Trouble::Transient(error.to_string()))?;
            let Some(chunk) = chunk else { break };
            if head.len() < HEAD_BYTES {
                head.extend_from_slice(&chunk[..chunk.len().min(HEAD_BYTES - head.len())]);
                // A CDN's content type is unreliable.
                if !expects_page && begins_a_page(&head) {
                    return login_page();
                }
            }
            digest.add(&chunk);
            if digest.size_bytes > max_bytes {
                return too_big();
            }
            writer.write(chunk).await?;
        }
        for expected in [download.size_bytes, object.exact_size_bytes()].into_iter().flatten() {
            if digest.size_bytes != expected {
                let sent = digest.size_bytes;
                let reason = format!("Slack announced {expected} bytes and sent {sent}");
                return Err(Trouble::Transient(reason));
            }
        }
        // Slack announces no length of a canvas: an error in its place would become a version.
        if object.is_canvas() && !without_blank_beginning(&head).starts_with(b"<") {
            return Err(Trouble::Transient("Slack sent no page for a canvas".into()));
        }
        counter!(FILE_BYTES).increment(digest.size_bytes);
        let held = match writer.publish().await? {
            Published::New => digest.into_held_bytes(key, source.to_owned()),
            // The stored bytes may differ from these.
            Published::AlreadyThere => {
                let gone = || FilesError::Unavailable(format!("{key} was stored, but is missing now"));
                self.stored_bytes(key, source).await?.ok_or_else(gone)?
            }
        };
        Ok(Fetched::Held(held))
    }

    /// The bytes stored under this key.
    pub(super) async fn stored_bytes(
        &self,
        key: &FileKey,
        source: &str,
    ) -> Result<Option<StoredBytes>, FilesError> {
        let Some(mut reader) = self.files.open(key).await? else { return Ok(None) };
        let mut digest = DigestedBytes::default();
        while let Some(chunk) = reader.next().await? {
            digest.add(&chunk);
        }
        Ok(Some(digest.into_held_bytes(key, source.to_owned())))
    }
}

/// Bytes after a byte order mark and white space.
fn without_blank_beginning(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start()
}

/// Whether bytes are the beginning of an HTML page.
pub(crate) fn begins_a_page(head: &[u8]) -> bool {
    let head = without_blank_beginning(head);
    [&b"<!doctype html"[..], b"<html"]
        .iter()
        .any(|tag| head.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_recognized_by_its_first_tag() {
        for page in [
            "<!DOCTYPE html><title>Slack</title>",
            "\n\t <!doctype HTML>",
            "\u{feff}<html lang=\"en\">",
            "<HTML>",
        ] {
            assert!(begins_a_page(page.as_bytes()), "{page}");
        }
        for other in
            ["", "<", "<!doctype", "<!doctype svg>", "<?xml version=\"1.0\"?><svg/>", "x <html>", "%PDF-1.7"]
        {
            assert!(!begins_a_page(other.as_bytes()), "{other}");
        }
    }
}

//! The versions of a canvas: fetches the current one, and stores its text for search.

use ports::archive::{ItemKey, Update};
use ports::files::FileReader;
use rules::file::canvas::{self, CanvasVersion, MissedEdit};
use rules::file::row::{self, Share};
use rules::file::{FileJob, FileObject, canvas_text, page_text};

use super::FileDownloader;
use super::fetch::{Fetched, Trouble};
use super::known_file::KnownFile;
use crate::failure::{JobFailure, PortError};

/// The newest version of a canvas, and the messages that show it.
pub(super) struct EditedCanvas {
    version: CanvasVersion,
    /// Whether its text may be missing.
    is_new: bool,
    shares: Vec<Share>,
}

impl EditedCanvas {
    /// The newest version after an attempt; `None` if the file is not a stored canvas.
    pub(super) fn after(fetched: &Fetched, known: &KnownFile, receives: u32) -> Option<Self> {
        let fetched_version = match fetched {
            Fetched::Held(held) => canvas::version_of(held),
            Fetched::Known(_) => None,
            Fetched::Verdict(_) | Fetched::Failed(_) => return None,
        };
        match fetched_version {
            Some(version) => Some(Self { version, is_new: true, shares: known.shares.clone() }),
            None => Self::known(known, receives),
        }
    }

    /// The newest version before an attempt. After a crash, the text or a message may lack it.
    pub(super) fn known(known: &KnownFile, receives: u32) -> Option<Self> {
        let is_new = receives > 1;
        let shares = if is_new { known.shares.clone() } else { Vec::new() };
        Some(Self { version: known.newest_version()?, is_new, shares })
    }
}

/// The update that records on a canvas which is stored already that its current version is not, or that a
/// later attempt found nothing new.
pub(super) fn missed(job: &FileJob, known: &KnownFile, fetched: &Fetched) -> Option<Update> {
    let newest = known.newest_version().filter(|_| job.refresh)?;
    let (attempt, reason) = match fetched {
        // It replaces the reason of the recorded attempt.
        Fetched::Known(_) => (known.missed_attempt()?, canvas::NOTHING_MISSED),
        Fetched::Held(_) | Fetched::Verdict(_) | Fetched::Failed(_) => {
            (attempt(job), missed_reason(fetched)?)
        }
    };
    let edit = MissedEdit::After(newest.updated);
    Some(canvas::missed(&job.team, &job.object.id, edit, attempt, reason))
}

/// The reason why a version is not stored.
fn missed_reason(fetched: &Fetched) -> Option<&'static str> {
    match fetched {
        Fetched::Held(_) | Fetched::Known(_) => None,
        Fetched::Verdict(verdict) => Some(verdict.label()),
        Fetched::Failed(_) => Some(canvas::FAILED),
    }
}

fn attempt(job: &FileJob) -> &str {
    job.version.as_deref().unwrap_or_default()
}

impl FileDownloader {
    /// Fetches a version of a canvas.
    pub(super) async fn fetch_version(
        &self,
        job: &FileJob,
        known: &KnownFile,
        object: &FileObject,
        updated: u64,
    ) -> Result<Fetched, Trouble> {
        let (team, file) = (&job.team, &object.id);
        let write = async |update: Update| {
            self.write(&[&update]).await.map(drop).map_err(|error| Trouble::Local(error.into()))
        };
        if !known.has_room(object)
            && let Some(newest) = known.newest_version()
        {
            let edit = MissedEdit::At(updated);
            write(canvas::missed(team, file, edit, attempt(job), canvas::TOO_MANY)).await?;
            return Ok(Fetched::Known(newest.key));
        }
        let source = object.source(team).unwrap_or_default();
        // An earlier attempt may have requested an earlier edit: its bytes may appear under the key.
        let source = known.expected_source().map_or(source, str::to_owned);
        write(canvas::expected(team, file, &known.key, &source)).await?;
        let fetched = self.download(job, object, &known.key, &source).await?;
        if let Some(reason) = missed_reason(&fetched) {
            write(canvas::missed(team, file, MissedEdit::At(updated), attempt(job), reason)).await?;
        }
        Ok(fetched)
    }

    /// Stores the text of a canvas, and returns the updates of the messages that show it. A message is
    /// written after the text, because a follower reads the text when the message changes.
    pub(super) async fn store_text(
        &self,
        job: &FileJob,
        edited: EditedCanvas,
    ) -> Result<Vec<Update>, JobFailure> {
        let EditedCanvas { version: CanvasVersion { updated, key, .. }, is_new, shares } = edited;
        let (team, file) = (&job.team, &job.object.id);
        if is_new {
            // The bytes may have been removed meanwhile.
            let Some(mut reader) = self.files.open(&key).await? else { return Ok(Vec::new()) };
            let text = text(&mut *reader).await?;
            let row = self.archive.get(&ItemKey::file(team, file)).await?;
            let name = row.as_ref().and_then(row::object).and_then(|object| object.name);
            self.write(&[&canvas_text::stored(team, file, updated, name.as_deref(), &text)]).await?;
        }
        let others = shares.into_iter().filter(|share| *share != job.share);
        let all = std::iter::once(job.share.clone()).chain(others);
        Ok(all.map(|share| canvas_text::on_message(team, &share, file, updated)).collect())
    }
}

/// The text of a canvas, from the beginning of its stored bytes.
async fn text(reader: &mut dyn FileReader) -> Result<String, PortError> {
    let mut page = Vec::new();
    while page.len() <= page_text::MAX_PAGE_BYTES
        && let Some(chunk) = reader.next().await?
    {
        page.extend_from_slice(&chunk);
    }
    Ok(page_text::text_of_page(&page))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::Bytes;
    use ports::files::FilesError;

    use super::*;

    /// Paragraphs, generated while they are read.
    struct GeneratedPage {
        size_bytes: u64,
        read_bytes: u64,
    }

    const CHUNK: &[u8] = &[b' '; 64 * 1024];
    const PARAGRAPH: &[u8] = b"<p>words</p>";

    #[async_trait]
    impl FileReader for GeneratedPage {
        fn size_bytes(&self) -> u64 {
            self.size_bytes
        }

        async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
            let is_read = self.read_bytes >= self.size_bytes;
            let mut chunk = CHUNK.to_vec();
            chunk[..PARAGRAPH.len()].copy_from_slice(PARAGRAPH);
            self.read_bytes += CHUNK.len() as u64;
            Ok((!is_read).then(|| chunk.into()))
        }
    }

    #[tokio::test]
    async fn of_a_canvas_of_100_mb_only_the_beginning_is_read_and_its_text_says_so() {
        let mut page = GeneratedPage { size_bytes: 100_000_000, read_bytes: 0 };
        let text = text(&mut page).await.unwrap();
        assert!(page.read_bytes <= (page_text::MAX_PAGE_BYTES + CHUNK.len()) as u64, "{}", page.read_bytes);
        assert!(text.ends_with("words\n[and more in the canvas]"));
        assert_eq!(text.matches("words").count(), page_text::MAX_PAGE_BYTES / CHUNK.len());
    }
}

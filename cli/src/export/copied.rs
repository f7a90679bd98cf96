//! Files of the archive as files beside pages: how they are called, and their bytes.
//!
//! Without a server and its headers, only a file's extension determines how a browser handles the file. Types
//! that browsers display get the extension of their sniffed content; types that no program runs keep their
//! own extension; everything else gets `.bin`, because a page or picture with a script would run with the
//! rights of the person who opens it.

use std::io::{self, Write};

use bytes::Bytes;
use ports::files::{FileKey, FileReader, Files, FilesError};
use viewer::sniff;

/// Extensions of types that no browser runs.
const HARMLESS: [&str; 17] = [
    "avif", "csv", "doc", "docx", "gz", "heic", "json", "log", "md", "odt", "pdf", "ppt", "pptx", "txt",
    "xls", "xlsx", "zip",
];

/// The extensions of the types that browsers display.
const SNIFFED: [(&str, &str); 11] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
];

/// A file of the store whose first bytes are read: they decide what it is called.
pub(crate) struct OpenedFile {
    first: Option<Bytes>,
    reader: Box<dyn FileReader>,
}

impl OpenedFile {
    /// Opens a file; `None` if the store lacks it.
    pub(crate) async fn open(files: &dyn Files, key: &FileKey) -> Result<Option<Self>, FilesError> {
        let Some(mut reader) = files.open(key).await? else { return Ok(None) };
        let first = reader.next().await?;
        Ok(Some(Self { first, reader }))
    }

    /// The first bytes.
    pub(crate) fn first(&self) -> &[u8] {
        self.first.as_deref().unwrap_or_default()
    }

    /// Writes all of it.
    pub(crate) async fn copy_to<E: From<FilesError> + From<io::Error>>(
        mut self,
        out: &mut dyn Write,
    ) -> Result<(), E> {
        let mut chunk = self.first;
        while let Some(bytes) = chunk {
            out.write_all(&bytes)?;
            chunk = self.reader.next().await?;
        }
        Ok(())
    }
}

/// Returns the extension of a file's own name, if it may keep it.
pub(crate) fn own_extension(name: &str) -> Option<&'static str> {
    let own = name.rsplit_once('.')?.1.to_ascii_lowercase();
    HARMLESS.into_iter().find(|extension| *extension == own)
}

/// Returns the name of a file's copy: `stem` with a safe extension. `own` is what [`own_extension`] returns.
pub(crate) fn copy_name(stem: &str, own: Option<&str>, first: &[u8]) -> String {
    let kind = sniff::content_type(first);
    let sniffed = SNIFFED.into_iter().find(|(known, _)| kind == Some(*known)).map(|(_, extension)| extension);
    format!("{stem}.{}", sniffed.or(own).unwrap_or("bin"))
}

/// Returns the file name of a picture. Its key contains the workspace and a hash of the picture's address.
pub(crate) fn picture_name(key: &FileKey) -> String {
    key.as_str().trim_start_matches("slack/").replace("/images/", "-").replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_no_extension_that_a_browser_would_run() {
        for (name, first, expected) in [
            ("a.png", &b"\x89PNG\r\n\x1a\n"[..], "F1.png"),
            ("a.html", b"\x89PNG\r\n\x1a\n", "F1.png"),
            ("a.png", b"<!DOCTYPE html>", "F1.bin"),
            ("a.svg", b"<svg", "F1.bin"),
            ("a.HTML", b"<html", "F1.bin"),
            ("notes.TXT", b"notes", "F1.txt"),
            ("photo.HEIC", b"\0\0\0\x18ftypheic", "F1.heic"),
            ("photo.avif", b"\0\0\0\x1cftypavif", "F1.avif"),
            ("film.heic", b"\0\0\0\x20ftypisom", "F1.mp4"),
            ("a.tar.gz", b"\x1f\x8b", "F1.gz"),
            ("../../x/txt", b"", "F1.bin"),
            ("none", b"", "F1.bin"),
        ] {
            assert_eq!(copy_name("F1", own_extension(name), first), expected, "{name}");
        }
    }
}

//! Copies files of messages and pictures next to the pages that show them, each once.
//!
//! Without a server and its headers, only a file's extension determines how a browser handles the file. Types
//! that browsers display get the extension of their sniffed content; types that no program runs keep their
//! own extension; everything else gets `.bin`, because a page or picture with a script would run with the
//! rights of the person who opens it.

use std::collections::HashMap;
use std::io::Write;

use ports::files::FileKey;
use slack::ids::FileId;
use viewer::gather::pictures::{self, CustomEmoji, EmojiBook};
use viewer::pages::message::PageMessage;
use viewer::sniff;

use super::links::{FILES, PICTURES, picture_name};
use super::{ExportedSite, authors};
use crate::export::source::ExportedChannel;
use crate::export::uploads::{SharedUpload, uploads_of};
use crate::export::{ExportError, ExportProgress, channel_files};

/// Extensions of types that no browser runs.
const HARMLESS: [&str; 17] = [
    "avif", "csv", "doc", "docx", "gz", "heic", "json", "log", "md", "odt", "pdf", "ppt", "pptx", "txt",
    "xls", "xlsx", "zip",
];

impl<'a> ExportedSite<'_, 'a> {
    /// Copies the files of messages and the pictures of their authors.
    pub(super) async fn copy_shown(
        &mut self,
        channel: &ExportedChannel<'a>,
        messages: &[&PageMessage],
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        let people = authors(messages).into_iter().collect();
        let people = pictures::people(self.source.archive, &channel.joined.teams(), people).await?;
        let keys: Vec<FileKey> = people.values().cloned().collect();
        self.pictures.people = people;
        self.copy_pictures(&keys).await?;
        for SharedUpload { file, name, key } in messages.iter().flat_map(|message| uploads_of(&message.row)) {
            if self.files.files.contains_key(&file) || self.source.files.is_none() {
                continue;
            }
            match self.copy(FILES, &key, |first| file_name(&file, &name, first)).await? {
                Some(copied) => drop(self.files.files.insert(file, copied)),
                None => progress.count_missing_file(),
            }
        }
        Ok(())
    }

    /// Copies the pictures of custom emoji.
    pub(super) async fn copy_emoji(&mut self, emoji: &EmojiBook) -> Result<(), ExportError> {
        let keys: Vec<FileKey> = emoji
            .values()
            .filter_map(|emoji| if let CustomEmoji::Picture(key) = emoji { Some(key.clone()) } else { None })
            .collect();
        self.copy_pictures(&keys).await
    }

    async fn copy_pictures(&mut self, keys: &[FileKey]) -> Result<(), ExportError> {
        for key in keys {
            if !self.files.pictures.contains(key)
                && self.copy(PICTURES, key, |_| picture_name(key)).await?.is_some()
            {
                self.files.pictures.insert(key.clone());
            }
        }
        Ok(())
    }

    /// Copies a file and returns its name, which `name` derives from the first bytes. Returns `None` if the
    /// file is missing, or if files are left out.
    async fn copy(
        &self,
        folder: &str,
        key: &FileKey,
        name: impl FnOnce(&[u8]) -> String,
    ) -> Result<Option<String>, ExportError> {
        let Some(files) = self.source.files else { return Ok(None) };
        let Some(mut reader) = files.open(key).await? else { return Ok(None) };
        let mut chunk = reader.next().await?;
        let name = name(chunk.as_deref().unwrap_or_default());
        let mut file = channel_files::create(&self.folder.join(folder).join(&name))?;
        while let Some(bytes) = chunk {
            file.write_all(&bytes)?;
            chunk = reader.next().await?;
        }
        channel_files::finish(file)?;
        Ok(Some(name))
    }
}

/// Returns the name of a file's copy: its id with a safe extension.
fn file_name(file: &FileId, name: &str, first: &[u8]) -> String {
    let extensions: HashMap<&str, &str> = [
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
    ]
    .into();
    let sniffed = sniff::content_type(first).and_then(|kind| extensions.get(kind).copied());
    let own = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let own = own.as_deref().filter(|extension| HARMLESS.contains(extension));
    format!("{file}.{}", sniffed.or(own).unwrap_or("bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_no_extension_that_a_browser_would_run() {
        let file = FileId::parse("F1").unwrap();
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
            assert_eq!(file_name(&file, name, first), expected, "{name}");
        }
    }
}

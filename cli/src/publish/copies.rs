//! Copies the files that pages show next to them: files of messages, pictures of people and of custom emoji.
//!
//! A copy is a tag of each unit that shows it, and leaves the site with the last of them. Its path is a function of
//! the file's key, of the extension of its name and of its first bytes, so it is the same in every run.

use ports::files::FileKey;
use process::config::publish::PublicFiles;
use rusqlite::{OptionalExtension, params};
use viewer::gather::pictures::{self, CustomEmoji};
use viewer::pages::message::PageMessage;
use viewer::public_links::{FILES, PICTURES, PageCopies};

use super::PublishError;
use super::run::PublishRun;
use super::state::{COPIES, UnitKind};
use super::tags::UnitTags;
use crate::export::copied::{OpenedFile, copy_name, own_extension};
use crate::export::uploads::uploads_of;

/// The beginning of the tag of a copy; its value is the path. The second one is the next text after all of them.
const COPY_TAG: &str = "f:";
const AFTER_COPY_TAGS: &str = "f;";

impl PublishRun<'_> {
    /// Copies what these messages show, and notes it.
    pub(super) async fn copies_of(
        &mut self,
        messages: &[&PageMessage],
        tags: &mut UnitTags,
    ) -> Result<PageCopies, PublishError> {
        let mut copies = PageCopies::default();
        let mut shown = Vec::new();
        if self.settings.has_avatars {
            let authors = messages.iter().filter_map(|message| message.content.author.user.as_deref());
            let authors = authors.filter(|author| !self.public.hidden.contains_key(*author)).collect();
            self.pictures.people = pictures::people(self.archive, &self.teams(), authors).await?;
            shown.extend(self.pictures.people.values().cloned());
        }
        if self.settings.files == PublicFiles::All {
            for upload in messages.iter().flat_map(|message| uploads_of(&message.row)) {
                let own = own_extension(&upload.name);
                if let Some(name) = self.copy(FILES, &upload.key, own, tags).await? {
                    copies.files.insert(upload.file, name);
                }
            }
            let mut used = UnitTags::default();
            used.note(messages.iter().copied());
            shown.extend(used.emoji().filter_map(|name| match self.pictures.emoji.get(name)? {
                CustomEmoji::Picture(key) => Some(key.clone()),
                CustomEmoji::Alias(_) => None,
            }));
        }
        for key in shown {
            if let Some(name) = self.copy(PICTURES, &key, None, tags).await? {
                copies.pictures.insert(key, name);
            }
        }
        Ok(copies)
    }

    /// Copies a file, unless the site has it, and returns its name there; `None` if the store lacks the file.
    async fn copy(
        &mut self,
        folder: &str,
        key: &FileKey,
        own_extension: Option<&str>,
        tags: &mut UnitTags,
    ) -> Result<Option<String>, PublishError> {
        let tag = format!("{COPY_TAG}{folder} {key} {}", own_extension.unwrap_or_default());
        let path = match self.known_copy(&tag)? {
            Some(path) => path,
            None => {
                let Some(opened) = OpenedFile::open(self.files, key).await? else { return Ok(None) };
                // Without the rest of the key, which names the workspace and the channel.
                let stem = key.as_str().rsplit('/').next().unwrap_or_default().replace('.', "-");
                let path = format!("{folder}/{}", copy_name(&stem, own_extension, opened.first()));
                self.writer.stage(&mut self.state, &tag, &path, opened).await?;
                path
            }
        };
        tags.note_copy(tag);
        Ok(path.rsplit('/').next().map(str::to_owned))
    }

    /// The path of a copy that is on the site, or waits for its place there.
    fn known_copy(&self, tag: &str) -> Result<Option<String>, PublishError> {
        if let Some(path) = self.writer.staged(tag) {
            return Ok(Some(path.to_owned()));
        }
        let query =
            "SELECT path FROM tag JOIN page ON page.path = tag.value WHERE tag = ?1 AND hash IS NOT NULL";
        Ok(self.state.db().prepare_cached(query)?.query_row([tag], |row| row.get(0)).optional()?)
    }

    /// Forgets the tags that no unit has any more, and deletes the copies that no page shows any more.
    pub(super) fn delete_unused(&mut self) -> Result<(), PublishError> {
        if self.state.dirty(UnitKind::Site)?.is_empty() {
            return Ok(());
        }
        self.state.atomically(|db| {
            db.execute("DELETE FROM tag WHERE tag NOT IN (SELECT tag FROM uses)", []).map(drop)
        })?;
        let query = "SELECT path FROM page WHERE channel = '' AND month = ?1 AND path NOT IN \
            (SELECT value FROM tag WHERE tag >= ?2 AND tag < ?3) ORDER BY path";
        let paths = {
            let mut statement = self.state.db().prepare_cached(query)?;
            let paths = statement.query_map(params![COPIES, COPY_TAG, AFTER_COPY_TAGS], |row| row.get(0))?;
            paths.collect::<rusqlite::Result<Vec<String>>>()?
        };
        if paths.is_empty() { Ok(()) } else { self.writer.delete(&mut self.state, &paths) }
    }
}

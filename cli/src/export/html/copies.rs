//! Copies files of messages and pictures next to the pages that show them, each once.

use ports::files::FileKey;
use viewer::gather::pictures::{self, CustomEmoji, EmojiBook};
use viewer::pages::message::PageMessage;
use viewer::public_links::{FILES, PICTURES};

use super::{ExportedSite, authors};
use crate::export::copied::{OpenedFile, copy_name, own_extension, picture_name};
use crate::export::source::ExportedChannel;
use crate::export::uploads::{SharedUpload, uploads_of};
use crate::export::{ExportError, ExportProgress, channel_files};

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
            match self
                .copy(FILES, &key, |first| copy_name(file.as_str(), own_extension(&name), first))
                .await?
            {
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
        let Some(opened) = OpenedFile::open(files, key).await? else { return Ok(None) };
        let name = name(opened.first());
        let mut file = channel_files::create(&self.folder.join(folder).join(&name))?;
        opened.copy_to::<ExportError>(&mut file).await?;
        channel_files::finish(file)?;
        Ok(Some(name))
    }
}

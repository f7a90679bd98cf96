//! The token file, which is reloaded when it changes, so that a workspace can be added, or a token replaced,
//! without a restart.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use slack_api::tokens::{TokenTable, parse_token_table};

use super::named_file::{MAX_SETTING_BYTES, read_text};

/// A token file and its last valid contents.
#[derive(Debug)]
pub(super) struct TokensFile {
    path: PathBuf,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    /// The metadata of the file when it was last checked; `None` if they could not be read.
    seen: Option<Metadata>,
    table: Arc<TokenTable>,
}

impl TokensFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// Why the file cannot be used, without any of its contents.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let seen = fs::metadata(path).map_err(|error| error.to_string())?;
        let table = Arc::new(read(path)?);
        Ok(Self { path: path.to_owned(), last: Mutex::new(Last { seen: Some(seen), table }) })
    }

    /// The current tokens of the file, or if it cannot be read, the last ones that could.
    pub(super) fn table(&self) -> Arc<TokenTable> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = fs::metadata(&self.path);
        if !is_same(last.seen.as_ref(), now.as_ref().ok()) {
            let table = now.as_ref().map_err(ToString::to_string).and_then(|_| read(&self.path));
            let path = self.path.display();
            match table {
                Ok(table) => {
                    tracing::info!(%path, workspaces = table.len(), "reloaded the tokens");
                    last.table = Arc::new(table);
                }
                Err(error) => {
                    tracing::warn!(%path, error, "failed to read the tokens; the previous ones stay in use")
                }
            }
            // Remembered even if the file is invalid, so that the warning is logged once.
            last.seen = now.ok();
        }
        Arc::clone(&last.table)
    }
}

fn is_same(before: Option<&Metadata>, now: Option<&Metadata>) -> bool {
    match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => {
            before.len() == now.len() && before.modified().ok() == now.modified().ok()
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn read(path: &Path) -> Result<TokenTable, String> {
    parse_token_table(&read_text(path, MAX_SETTING_BYTES)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teams(file: &TokensFile) -> Vec<String> {
        file.table().keys().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        fs::write(&path, r#"{"T1": "xoxb-1"}"#).unwrap();
        let file = TokensFile::open(&path).unwrap();
        let first = file.table();
        assert!(Arc::ptr_eq(&first, &file.table()));
        fs::write(&path, r#"{"T1": "xoxb-1", "T2": "xoxb-2"}"#).unwrap();
        assert_eq!(teams(&file), ["T1", "T2"]);
    }

    #[test]
    fn a_file_that_breaks_leaves_the_last_tokens_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        fs::write(&path, r#"{"T1": "xoxb-1"}"#).unwrap();
        let file = TokensFile::open(&path).unwrap();
        fs::write(&path, r#"{"T1": "xoxb"#).unwrap();
        assert_eq!(teams(&file), ["T1"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(teams(&file), ["T1"]);
        fs::write(&path, "{}").unwrap();
        assert!(teams(&file).is_empty());
    }
}

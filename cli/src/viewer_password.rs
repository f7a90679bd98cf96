//! The password of the pages that Annalist makes itself: `--viewer-password-file auto`.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use process::config::named_file::{MAX_SETTING_BYTES, read_text};
use viewer::access::ViewerPassword;

use crate::UsageError;
use crate::operate::target;

/// The value of the setting that asks for a password of its own.
pub(crate) const AUTO: &str = "auto";

/// The name of the file in the data folder. No backup has it.
const FILE: &str = "viewer-password";

/// 130 bits, in letters that a person can type.
const LETTERS: usize = 26;

/// RFC 4648, in lower case.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Where the password of the pages is.
#[derive(Debug, Clone)]
pub(crate) enum PasswordPlace {
    /// In a file that the user made.
    Given(PathBuf),
    /// In a file of the data folder, which is made if it is missing.
    Made(PathBuf),
}

impl PasswordPlace {
    /// The place according to the setting. `data` is the data folder, if there is one.
    pub(crate) fn new(setting: &Path, data: Option<&Path>) -> Result<Self, UsageError> {
        if setting != Path::new(AUTO) {
            return Ok(Self::Given(setting.to_owned()));
        }
        let data = data.ok_or_else(|| {
            UsageError::new("--viewer-password-file auto needs a data folder: name a file with the password")
        })?;
        Ok(Self::Made(data.join(FILE)))
    }
}

/// The password in this file of the data folder. Makes the file if it is missing.
pub(crate) fn read_or_create(path: &Path) -> anyhow::Result<ViewerPassword> {
    if !path.try_exists().unwrap_or(true) {
        let made = target::write_private_file(path, &(random()? + "\n"), false);
        // Another process may have made it meanwhile.
        if let Err(error) = made
            && !path.exists()
        {
            return Err(error).context("cannot make the password of the pages");
        }
        tracing::info!(file = %path.display(), "made a password for the pages, which is in this file");
    }
    Ok(read(path)?)
}

/// The password in a file.
pub(crate) fn read(path: &Path) -> Result<ViewerPassword, UsageError> {
    let unusable =
        |why| UsageError::new(format!("--viewer-password-file {} cannot be used: {why}", path.display()));
    let text = read_text(path, MAX_SETTING_BYTES).map_err(unusable)?;
    ViewerPassword::new(&text).ok_or_else(|| unusable("it is empty".to_owned()))
}

fn random() -> anyhow::Result<String> {
    let mut bytes = [0; LETTERS];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("there are no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| char::from(BASE32[usize::from(byte & 31)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_password_stays_and_only_its_owner_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        let PasswordPlace::Made(path) = PasswordPlace::new(Path::new(AUTO), Some(data.path())).unwrap()
        else {
            panic!("it is not in the data folder")
        };
        read_or_create(&path).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        let letters = first.trim_end().as_bytes();
        assert!(letters.len() == LETTERS && letters.iter().all(|letter| BASE32.contains(letter)), "{first}");
        read_or_create(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 1);
        std::fs::remove_file(&path).unwrap();
        read_or_create(&path).unwrap();
        assert_ne!(std::fs::read_to_string(&path).unwrap(), first);
        std::fs::write(&path, " \n").unwrap();
        let error = read_or_create(&path).err().unwrap().to_string();
        assert!(error.contains("it is empty"), "{error}");
    }

    #[test]
    fn without_a_data_folder_a_file_must_be_named() {
        let error = PasswordPlace::new(Path::new(AUTO), None).unwrap_err().to_string();
        assert!(error.contains("name a file"), "{error}");
        let place = PasswordPlace::new(Path::new("./auto"), None).unwrap();
        assert!(matches!(place, PasswordPlace::Given(path) if path == Path::new("./auto")));
    }
}

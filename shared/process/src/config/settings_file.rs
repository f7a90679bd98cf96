//! The settings file: lines of `NAME=value`, as systemd and Compose read them. A process reads it once, at its start;
//! the environment goes before it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::ArgMatches;
use slack::credentials::{APP_TOKEN, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN, SIGNING_SECRET};

use super::backend_kind::BackendKind;
use super::named_file::read_text;
use super::setting_names::{NAMES, SETTINGS, is_ours};
use super::settings_lines::values;
use super::viewer::CLIENT_SECRET;

/// The name of the file in the data folder.
pub const SETTINGS_FILE: &str = "annalist.env";

/// A hundred settings with long values.
const MAX_BYTES: u64 = 64 * 1024;

/// The file that this process reads, if it reads one.
static READ: OnceLock<SettingsFile> = OnceLock::new();

/// The choice of the settings file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SettingsArgs {
    /// File of settings, a NAME=value in each line [default: annalist.env in the data folder]
    #[arg(long, env = SETTINGS, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

/// A settings file as it was at the start of the process.
#[derive(Clone)]
pub struct SettingsFile {
    path: PathBuf,
    state: SettingsFileState,
    values: BTreeMap<String, String>,
}

/// Whether the file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsFileState {
    /// It was read.
    Read {
        /// Whether other users of this machine can read it.
        is_open: bool,
    },
    /// There is no such file.
    Missing,
    /// This user may not read it.
    Forbidden,
}

/// What `annalist doctor` says about the settings: names, and no values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFacts {
    /// The settings file, if one is looked for, and whether it was read.
    pub file: Option<(PathBuf, SettingsFileState)>,
    /// Whether the file contains a secret.
    pub has_secret: bool,
    /// The settings that the file contains.
    pub in_file: Vec<String>,
    /// The settings that the environment contains.
    pub in_environment: Vec<&'static str>,
}

/// Why a settings file cannot be used. No value is part of it.
#[derive(Debug, thiserror::Error)]
pub enum SettingsFileError {
    /// The file cannot be read.
    #[error("the settings file {} cannot be used: {why}; name one with --settings (ANNALIST_SETTINGS)", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A line cannot be used.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A setting has a value that it cannot have.
    #[error(
        "{variable} in {} has a value that it cannot have{possible}: correct that line, or remove it",
        path.display()
    )]
    Value {
        /// The file.
        path: PathBuf,
        /// The setting.
        variable: String,
        /// The values that it can have, if there are few.
        possible: String,
    },
}

/// Without the values, which may be secrets.
impl fmt::Debug for SettingsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SettingsFile").field(&self.path).field(&self.state).finish()
    }
}

impl SettingsFile {
    /// Reads a file; the default file may be missing, or belong to another user.
    ///
    /// # Errors
    /// [`SettingsFileError`], of one line.
    pub fn read(path: &Path, is_named: bool) -> Result<Self, SettingsFileError> {
        let without = |state| Ok(Self { path: path.to_owned(), state, values: BTreeMap::new() });
        let why = match fs::metadata(path) {
            Ok(metadata) => match read_text(path, MAX_BYTES) {
                Ok(text) => {
                    let state = SettingsFileState::Read { is_open: is_open(&metadata) };
                    let values = values(&text).map_err(|(line, why)| SettingsFileError::Line {
                        path: path.to_owned(),
                        line,
                        why,
                    })?;
                    return Ok(Self { path: path.to_owned(), state, values });
                }
                Err(_) if !is_named && metadata.is_file() && is_forbidden(path) => {
                    return without(SettingsFileState::Forbidden);
                }
                Err(why) => why,
            },
            Err(error) if !is_named && error.kind() == ErrorKind::PermissionDenied => {
                return without(SettingsFileState::Forbidden);
            }
            // `NotADirectory`: the command itself reports that the data folder is a file.
            Err(error)
                if !is_named && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return without(SettingsFileState::Missing);
            }
            Err(error) => error.to_string(),
        };
        Err(SettingsFileError::Unusable { path: path.to_owned(), why })
    }

    /// The file that the arguments of a command choose; `None` if the command reads none.
    pub(super) fn of_command(matches: &ArgMatches) -> Result<Option<Self>, SettingsFileError> {
        let mut command = matches;
        while let Some((_, subcommand)) = command.subcommand() {
            command = subcommand;
        }
        // Only a command with this argument reads a file.
        let Ok(named) = command.try_get_one::<PathBuf>("settings") else { return Ok(None) };
        if let Some(path) = named {
            return Self::read(path, true).map(Some);
        }
        let backend = command.try_get_one::<BackendKind>("backend");
        let data = command.try_get_one::<PathBuf>("data");
        let (Ok(Some(BackendKind::Embedded)), Ok(Some(data))) = (backend, data) else { return Ok(None) };
        Self::read(&data.join(SETTINGS_FILE), false).map(Some)
    }

    /// Makes this the file of the process. The first one stays.
    pub(super) fn keep(self) -> &'static Self {
        READ.get_or_init(|| self)
    }

    /// The value of a setting, if the file contains it; it may be blank.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The names that the file contains.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The error about a setting of this file.
    pub(super) fn wrong_value(&self, variable: &str, possible: &[String]) -> SettingsFileError {
        let possible = match possible {
            [] => String::new(),
            possible => format!(" (possible: {})", possible.join(", ")),
        };
        SettingsFileError::Value { path: self.path.clone(), variable: variable.to_owned(), possible }
    }

    fn has_secret(&self) -> bool {
        let secrets = [SIGNING_SECRET, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN].map(|secret| secret.value);
        let is_set = |name: &str| self.value(name).is_some_and(|value| !value.is_empty());
        secrets.into_iter().chain([APP_TOKEN, CLIENT_SECRET]).any(is_set)
    }

    /// A warning about a file that others can read and that contains a secret.
    fn warning(&self) -> Option<String> {
        let is_open = self.state == SettingsFileState::Read { is_open: true };
        let path = self.path.display();
        (is_open && self.has_secret())
            .then(|| format!("other users can read the secrets in {path}: chmod 600 {path}"))
    }
}

/// The value of a setting in the file of this process; `None` if it is missing or blank.
pub(super) fn text(name: &str) -> Option<String> {
    let value = READ.get()?.value(name)?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// The file of this process, if it was read.
pub(super) fn path() -> Option<&'static Path> {
    let file = READ.get()?;
    matches!(file.state, SettingsFileState::Read { .. }).then_some(file.path.as_path())
}

/// The warning about the file of this process, if others can read it and it contains a secret.
pub fn settings_warning() -> Option<String> {
    READ.get()?.warning()
}

/// The settings file that this process looked for and may not read: a setting that is missing may be in it.
pub fn forbidden_settings_file() -> Option<&'static Path> {
    let file = READ.get()?;
    (file.state == SettingsFileState::Forbidden).then_some(file.path.as_path())
}

/// The names of the settings, by their place.
pub fn settings_facts() -> SettingsFacts {
    let file = READ.get();
    SettingsFacts {
        file: file.map(|file| (file.path.clone(), file.state)),
        has_secret: file.is_some_and(SettingsFile::has_secret),
        in_file: file
            .map(|file| file.values.keys().filter(|name| is_ours(name)).cloned().collect())
            .unwrap_or_default(),
        in_environment: NAMES.into_iter().filter(|name| super::environment(name).is_some()).collect(),
    }
}

#[cfg(unix)]
fn is_open(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(metadata) & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open(_: &fs::Metadata) -> bool {
    false
}

fn is_forbidden(path: &Path) -> bool {
    File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_file_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("long"), "#".repeat(64 * 1024 + 1)).unwrap();
        fs::write(at("binary"), [0xff]).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for (name, expected) in
            [("long", "longer than 64 KiB"), ("binary", "UTF-8"), ("folder", "not a regular file")]
        {
            for is_named in [true, false] {
                let line = SettingsFile::read(&at(name), is_named).unwrap_err().to_string();
                assert!(line.contains(expected) && line.contains(name), "{line}");
            }
        }
        for missing in [at("nowhere"), at("long").join(SETTINGS_FILE)] {
            let found = SettingsFile::read(&missing, false).unwrap();
            assert_eq!(found.state, SettingsFileState::Missing);
            assert!(SettingsFile::read(&missing, true).is_err());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_with_a_secret_that_others_can_read_causes_a_warning() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SETTINGS_FILE);
        for (text, mode, is_warned) in [
            ("SLACK_APP_TOKEN=xapp-1", 0o600, false),
            ("SLACK_APP_TOKEN=xapp-1", 0o640, true),
            ("SLACK_APP_TOKEN=xapp-1", 0o604, true),
            ("SLACK_APP_TOKEN=\nANNALIST_LOG=info", 0o644, false),
        ] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let warning = SettingsFile::read(&path, false).unwrap().warning();
            assert_eq!(warning.is_some(), is_warned, "{text} {mode:o}: {warning:?}");
            assert!(warning.is_none_or(|line| line.contains("chmod 600") && !line.contains("xapp")));
        }
    }

    #[test]
    fn the_names_are_in_order_and_occur_once() {
        let mut sorted = NAMES.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), NAMES.len());
        assert!(NAMES.iter().all(|name| is_ours(name)));
    }
}

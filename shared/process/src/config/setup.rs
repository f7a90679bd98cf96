//! `annalist setup`: where it writes, and the settings that are known before it asks.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::setting_names::API_URL;
use super::slack::SlackArgs;
use super::{DataArgs, SETTINGS_FILE, SettingsFile, SettingsFileError, environment};

/// The variable of the address of the pages.
pub const VIEWER_LISTEN: &str = "ANNALIST_VIEWER_LISTEN";

/// The installation that a command sets up.
#[derive(Debug, Clone, clap::Args)]
pub struct NewInstallationArgs {
    /// The data folder
    #[command(flatten)]
    pub data: DataArgs,
    /// File to write [default: annalist.env in the data folder]
    // Another id than that of other commands, whose file must exist.
    #[arg(id = "new_settings", long = "settings", env = "ANNALIST_SETTINGS", value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Address for the pages [default: 127.0.0.1:3002]
    #[arg(long, env = VIEWER_LISTEN, value_name = "ADDR")]
    pub viewer_listen: Option<SocketAddr>,
    /// The address of Slack
    #[command(flatten)]
    pub slack: SlackArgs,
}

impl NewInstallationArgs {
    /// The file to write.
    #[must_use]
    pub fn settings_path(&self) -> PathBuf {
        self.settings.clone().unwrap_or_else(|| self.data.data.join(SETTINGS_FILE))
    }

    /// The settings of the environment, and of the file if it exists.
    ///
    /// # Errors
    /// [`SettingsFileError`] if the file exists and cannot be used.
    pub fn known(&self) -> Result<KnownSettings, SettingsFileError> {
        let path = self.settings_path();
        // A file that cannot be looked at may exist.
        let exists = path.try_exists().unwrap_or(true);
        Ok(KnownSettings(SettingsFile::read(&path, exists)?))
    }

    /// Where Slack's Web API is, according to the argument, the environment or the file.
    #[must_use]
    pub fn slack(&self, known: &KnownSettings) -> SlackArgs {
        SlackArgs { slack_api_url: self.slack.slack_api_url.clone().or_else(|| known.value(API_URL)) }
    }
}

/// The settings of the environment and of a file.
#[derive(Debug)]
pub struct KnownSettings(SettingsFile);

impl KnownSettings {
    /// The value of a setting; `None` if it is unset or blank.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        let in_file = || self.0.value(name).filter(|value| !value.trim().is_empty()).map(str::to_owned);
        environment(name).or_else(in_file)
    }
}

//! Names of AWS resources. The AWS SDK reads AWS's own variables (`AWS_REGION`, `AWS_PROFILE`,
//! `AWS_ENDPOINT_URL`, …), with their usual meaning.

use super::backend_kind::AWS_HEADING as HEADING;
use super::{ConfigError, SettingsArgs};
use aws_resources::names::Names;

/// Names of resources.
#[derive(Debug, Clone, clap::Args)]
pub struct AwsArgs {
    /// Prefix of the queues' names
    #[arg(long, help_heading = HEADING, env = "ANNALIST_PREFIX", value_name = "PREFIX", default_value = DEFAULT_PREFIX)]
    pub prefix: String,
    /// The bucket for files; required
    #[arg(long, help_heading = HEADING, env = "ANNALIST_BUCKET", value_name = "BUCKET")]
    pub bucket: Option<String>,
    /// The archive's table, if not SlackArchive
    #[arg(long, help_heading = HEADING, env = "ANNALIST_TABLE", value_name = "TABLE")]
    pub table: Option<String>,
    /// The table of the existence check, if not slack-existence-check-cache
    #[arg(long, help_heading = HEADING, env = "ANNALIST_EXISTENCE_TABLE", value_name = "TABLE", hide_short_help = true)]
    pub existence_table: Option<String>,
    /// The table of claims, if not slack-processed-events
    #[arg(long, help_heading = HEADING, env = "ANNALIST_CLAIMS_TABLE", value_name = "TABLE", hide_short_help = true)]
    pub claims_table: Option<String>,
}

/// The settings of a command that is about AWS alone. It reads the settings file that is named, and no other.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AwsOnlyArgs {
    /// The settings file
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Names of resources
    #[command(flatten)]
    pub aws: AwsArgs,
}

const DEFAULT_PREFIX: &str = "annalist";

impl Default for AwsArgs {
    fn default() -> Self {
        Self {
            prefix: DEFAULT_PREFIX.to_owned(),
            bucket: None,
            table: None,
            existence_table: None,
            claims_table: None,
        }
    }
}

impl AwsArgs {
    /// The validated names.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no bucket, or AWS would refuse a name.
    pub fn names(&self) -> Result<Names, ConfigError> {
        let bucket =
            self.bucket.as_deref().filter(|bucket| !bucket.is_empty()).ok_or(ConfigError::NoBucket)?;
        let tables = [&self.table, &self.existence_table, &self.claims_table].map(Option::as_deref);
        Ok(Names::new(&self.prefix, tables, bucket)?)
    }
}

//! The names of an installation's resources on AWS.

use ports::queue::QueueRef;
use ports::queue::topology::{ARCHIVE_TABLE, CLAIMS_TABLE, EXISTENCE_TABLE, TableRole};

/// The names of one installation's queues, tables and bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    prefix: String,
    archive_table: String,
    existence_table: String,
    claims_table: String,
    bucket: String,
}

/// A name that AWS would reject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value:?}: {rule}")]
pub struct InvalidName {
    setting: &'static str,
    value: String,
    rule: &'static str,
}

/// The environment variables that set the names.
pub mod settings {
    /// The prefix of queue names.
    pub const PREFIX: &str = "ANNALIST_PREFIX";
    /// The archive's table.
    pub const TABLE: &str = "ANNALIST_TABLE";
    /// The table of the existence check.
    pub const EXISTENCE_TABLE: &str = "ANNALIST_EXISTENCE_TABLE";
    pub const CLAIMS_TABLE: &str = "ANNALIST_CLAIMS_TABLE";
    pub const BUCKET: &str = "ANNALIST_BUCKET";
}

impl Names {
    /// Names from the settings; a table without a name gets the default of the topology.
    ///
    /// # Errors
    /// If AWS would reject a name.
    pub fn new(
        prefix: &str,
        [archive_table, existence_table, claims_table]: [Option<&str>; 3],
        bucket: &str,
    ) -> Result<Self, InvalidName> {
        let table = |setting, name: Option<&str>, default| {
            checked(setting, name.unwrap_or(default), TABLE_RULE, is_table)
        };
        Ok(Self {
            prefix: checked(settings::PREFIX, prefix, PREFIX_RULE, is_prefix)?,
            archive_table: table(settings::TABLE, archive_table, ARCHIVE_TABLE.default_name)?,
            existence_table: table(settings::EXISTENCE_TABLE, existence_table, EXISTENCE_TABLE.default_name)?,
            claims_table: table(settings::CLAIMS_TABLE, claims_table, CLAIMS_TABLE.default_name)?,
            bucket: checked(settings::BUCKET, bucket, BUCKET_RULE, is_bucket)?,
        })
    }

    /// `<prefix>-<name>.fifo`, dead letters `<prefix>-<name>-dlq.fifo`.
    pub fn queue(&self, queue: QueueRef) -> String {
        format!("{}-{queue}.fifo", self.prefix)
    }

    /// The prefix of queue names.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a table.
    pub fn table(&self, role: TableRole) -> &str {
        match role {
            TableRole::Archive => &self.archive_table,
            TableRole::Existence => &self.existence_table,
            TableRole::Claims => &self.claims_table,
        }
    }

    /// The name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The globally unique identity of the archive: another account may have a table of this name, but not
    /// this bucket.
    #[must_use]
    pub fn archive_identity(&self) -> String {
        format!("{}/{}", self.bucket, self.archive_table)
    }
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>: 80
/// characters in all, of which the longest `-questions-dlq.fifo` takes 19.
const PREFIX_RULE: &str = "a prefix has 1 to 60 letters, digits, - and _";
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html>
const TABLE_RULE: &str = "a table's name has 3 to 255 letters, digits, -, _ and .";
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>
const BUCKET_RULE: &str =
    "a bucket's name has 3 to 63 lowercase letters, digits, - and ., and is globally unique";

fn checked(
    setting: &'static str,
    name: &str,
    rule: &'static str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<String, InvalidName> {
    if is_valid(name) {
        Ok(name.to_owned())
    } else {
        Err(InvalidName { setting, value: name.to_owned(), rule })
    }
}

fn is_prefix(name: &str) -> bool {
    (1..=60).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn is_table(name: &str) -> bool {
    (3..=255).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_bucket(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().copied().all(inner)
        && edge(bytes.first())
        && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::queue::QueueName;
    use ports::queue::topology::QUEUES;

    #[test]
    fn archives_of_two_accounts_have_different_identities() {
        let identity =
            |table, bucket| Names::new("annalist", [table, None, None], bucket).unwrap().archive_identity();
        assert_ne!(identity(None, "bucket-one"), identity(None, "bucket-two"));
        assert_ne!(identity(None, "bucket-one"), identity(Some("Other"), "bucket-one"));
    }

    #[test]
    fn the_longest_prefix_still_makes_valid_queue_names() {
        let names = Names::new(&"p".repeat(60), [None; 3], "bucket").unwrap();
        for spec in &QUEUES {
            assert!(names.queue(QueueRef::dead_letters(spec.name)).len() <= 80);
        }
        assert_eq!(
            Names::new("annalist", [None; 3], "bucket").unwrap().queue(QueueName::Events.into()),
            "annalist-events.fifo"
        );
    }

    #[test]
    fn the_error_of_an_invalid_name_begins_with_its_setting() {
        for (prefix, table, bucket, setting) in [
            ("", None, "bucket", "ANNALIST_PREFIX"),
            ("a.b", None, "bucket", "ANNALIST_PREFIX"),
            ("annalist", Some("t"), "bucket", "ANNALIST_TABLE"),
            ("annalist", Some("a/b"), "bucket", "ANNALIST_TABLE"),
            ("annalist", None, "", "ANNALIST_BUCKET"),
            ("annalist", None, "Bucket", "ANNALIST_BUCKET"),
            ("annalist", None, "-bucket", "ANNALIST_BUCKET"),
            ("annalist", None, "../bucket", "ANNALIST_BUCKET"),
        ] {
            let refused = Names::new(prefix, [table, None, None], bucket).unwrap_err().to_string();
            assert!(refused.starts_with(setting), "{refused}");
        }
    }
}

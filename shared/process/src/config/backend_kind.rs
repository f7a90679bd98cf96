//! The names of the backends.

use std::fmt;

/// The heading of the settings that matter on AWS alone.
pub(super) const AWS_HEADING: &str = "With --backend aws";

/// The available backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendKind {
    /// SQLite and a folder.
    Embedded,
    /// SQS FIFO, DynamoDB and S3.
    Aws,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Aws => "aws",
        })
    }
}

//! A bucket of S3, or of a store that speaks its protocol, and what every client of AWS shares.
//!
//! * [`Bucket`]: a bucket, or the keys below a prefix in it; [`Bucket::files`] is the files port on it.
//! * [`loader`], [`policy`]: the configuration of every client; timeout and retries of each kind of call.
//! * [`fault`]: turns an AWS error into one line that says what to do; [`request_counter`]: counts all requests.

pub mod fault;
mod files;
mod objects;
pub mod policy;
pub mod request_counter;
mod versions;

use std::sync::Arc;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_smithy_http_client::tls;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

use fault::CallSubject;

/// The configuration that every client starts from.
pub fn loader() -> ConfigLoader {
    // The same TLS stack as for Slack: ring, which needs no entropy of its own at startup.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    // Pinned, not `latest()`: an SDK update must not silently change timing and retries.
    aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http)
}

/// A bucket, or the keys below a prefix in it, and its clients.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// The bucket's name.
    pub name: String,
    /// What the key of every object begins with: empty, or ending in `/`.
    pub prefix: String,
    /// For requests that transfer content.
    pub bytes: Client,
    /// For all other requests.
    pub objects: Client,
    /// Explains errors of both clients.
    pub subject: CallSubject,
}

impl Bucket {
    /// A bucket that a user names, with region, credentials and endpoint from AWS's own variables. Sends no request to
    /// S3 yet.
    pub async fn connect(name: &str, prefix: &str) -> Self {
        // From the variables or the profile, not from the machine: most machines are none of AWS's, and would be asked
        // for seconds. A store with an endpoint of its own often has no regions.
        let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
            .or_else(ProfileFileRegionProvider::new())
            .or_else(Region::from_static("us-east-1"));
        let sdk = loader().region(region).load().await;
        let region = sdk.region().map(ToString::to_string).unwrap_or_default();
        let subject = CallSubject {
            service: "S3",
            resource: format!("bucket {name}"),
            setting: "its name",
            to_create: "create it",
            region,
        };
        Self::new(&sdk, name, prefix, subject)
    }

    /// Sends no request to S3 yet.
    pub fn new(sdk: &SdkConfig, name: &str, prefix: &str, subject: CallSubject) -> Self {
        Self {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            bytes: policy::BYTES.s3(sdk),
            objects: policy::OBJECTS.s3(sdk),
            subject,
        }
    }

    pub fn files(self) -> Arc<dyn ports::files::Files> {
        Arc::new(files::S3Files::new(self))
    }

    /// The whole key of an object: below the prefix.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

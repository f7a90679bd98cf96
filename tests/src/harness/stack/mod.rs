//! AWS for the tests: the endpoint in `AWS_ENDPOINT_URL`, otherwise LocalStack if there is Docker, otherwise
//! ministack in a Python environment that is created here. If none of the three is available, tests fail and
//! name the packages to install. In addition to ministack, the tests of queues and files run on LocalStack's
//! Python package, to detect quirks of one emulator.

mod emulator;
mod localstack;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws::Aws;
use aws::provision::{Parts, provision};
use aws_config::{Region, SdkConfig};
use aws_resources::names::Names;
use aws_sdk_sqs::config::Credentials;

use super::print_uncaptured;
use emulator::{Emulated, LOCALSTACK, MINISTACK, Package};

/// The region of all resources.
pub const REGION: &str = "eu-central-1";
/// The tag of LocalStack's image.
pub const LOCALSTACK_TAG: &str = localstack::TAG;
/// The services that the tests of a whole stack use.
const SERVICES: &str = "sqs,dynamodb,s3,secretsmanager,cloudformation";
/// Access key for emulators.
const KEY: &str = "test";

/// A service with the APIs of AWS.
#[derive(Debug)]
pub struct Stack {
    endpoint: String,
    kind: StackKind,
}

#[derive(Debug)]
enum StackKind {
    /// The endpoint of `AWS_ENDPOINT_URL`.
    Given,
    /// A container.
    LocalStack(localstack::LocalStack),
    /// A Python package in a separate process, with an adjustable clock.
    Python(Emulated, Emulator),
}

/// The emulator of AWS: each has its own deviations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emulator {
    /// Unknown: treated as AWS itself.
    Unknown,
    /// LocalStack in a container, with the real clock.
    LocalStack,
    /// LocalStack's Python package, without DynamoDB, with an adjustable clock.
    LocalStackPackage,
    /// Ministack, with an adjustable clock.
    Ministack,
}

impl Stack {
    /// The stack of this test run, started by the first test that needs it. Prints once which stack it is.
    ///
    /// # Panics
    /// If no stack is available; the message names the packages to install.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Stack> = OnceLock::new();
        SHARED.get_or_init(|| {
            let stack = Self::start();
            print_uncaptured(&format!("AWS tests run on {}", stack.name()));
            stack
        })
    }

    /// A stack whose clock no other test uses. If the shared stack's clock cannot be moved, it is the shared
    /// one.
    ///
    /// # Panics
    /// As [`Stack::shared`].
    pub fn with_own_clock() -> &'static Self {
        static OWN: OnceLock<Stack> = OnceLock::new();
        let shared = Self::shared();
        match shared.kind {
            StackKind::Python(..) => OWN.get_or_init(|| Self::start_python(MINISTACK, Emulator::Ministack)),
            StackKind::Given | StackKind::LocalStack(_) => shared,
        }
    }

    /// LocalStack's SQS and S3 from its Python package, with an adjustable clock, started by the first test
    /// that needs it. `None` if the shared stack is LocalStack already, or was given: then the same tests run
    /// there. Prints once which it is.
    ///
    /// # Panics
    /// As [`Stack::shared`].
    pub fn second_emulator() -> Option<&'static Self> {
        static SECOND: OnceLock<Option<Stack>> = OnceLock::new();
        SECOND
            .get_or_init(|| {
                let shared = Self::shared();
                if !matches!(shared.kind, StackKind::Python(..)) {
                    print_uncaptured(&format!("no second emulator in addition to {}", shared.name()));
                    return None;
                }
                let stack = Self::start_python(LOCALSTACK, Emulator::LocalStackPackage);
                print_uncaptured(&format!("tests of queues and files run on {} as well", stack.name()));
                Some(stack)
            })
            .as_ref()
    }

    #[expect(clippy::disallowed_methods, reason = "the harness decides where tests run")]
    fn start() -> Self {
        if let Ok(endpoint) = std::env::var("AWS_ENDPOINT_URL") {
            return Self { endpoint, kind: StackKind::Given };
        }
        match localstack::LocalStack::start() {
            Ok(running) => Self { endpoint: running.endpoint.clone(), kind: StackKind::LocalStack(running) },
            Err(why) => {
                print_uncaptured(&format!("no LocalStack: {why}"));
                Self::start_python(MINISTACK, Emulator::Ministack)
            }
        }
    }

    fn start_python(package: Package, emulator: Emulator) -> Self {
        match Emulated::start(package) {
            Ok(running) => {
                Self { endpoint: running.endpoint.clone(), kind: StackKind::Python(running, emulator) }
            }
            Err(why) => panic!(
                "the AWS tests have nothing to run on: {}: {why}\nInstall Docker, or Python 3.11 or newer with venv \
                 and pip (Debian: apt install python3-venv), or set AWS_ENDPOINT_URL to an emulator",
                package.name
            ),
        }
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn emulator(&self) -> Emulator {
        match self.kind {
            StackKind::Given => Emulator::Unknown,
            StackKind::LocalStack(_) => Emulator::LocalStack,
            StackKind::Python(_, emulator) => emulator,
        }
    }

    fn name(&self) -> String {
        match &self.kind {
            StackKind::Given => format!("{} (AWS_ENDPOINT_URL)", self.endpoint),
            StackKind::LocalStack(running) => format!("LocalStack {} in Docker", running.tag()),
            StackKind::Python(running, _) => format!("{} at {}", running.package.name, self.endpoint),
        }
    }

    /// The SDK's configuration. The endpoint may be a proxy to this stack.
    pub async fn sdk(&self, endpoint: &str) -> SdkConfig {
        self.sdk_in(endpoint, REGION).await
    }

    /// The SDK's configuration for another region.
    pub async fn sdk_in(&self, endpoint: &str, region: &'static str) -> SdkConfig {
        let key = Credentials::new(KEY, KEY, None, None, "tests");
        aws::loader()
            .endpoint_url(endpoint)
            .region(Region::new(region))
            .credentials_provider(key)
            .load()
            .await
    }

    /// A client with names that no other test uses. Creates no resource.
    ///
    /// # Panics
    /// Never: the names are valid.
    pub async fn aws(&self) -> Aws {
        self.aws_at(&self.endpoint, fresh_names()).await
    }

    /// A client with these names, whose endpoint may be a proxy to this stack.
    ///
    /// # Panics
    /// Never: a region is set.
    pub async fn aws_at(&self, endpoint: &str, names: Names) -> Aws {
        Aws::from_sdk_config(self.sdk(endpoint).await, names).expect("a region is set")
    }

    /// A client with names that no other test uses, and with these resources.
    ///
    /// # Panics
    /// If a resource cannot be created.
    pub async fn provisioned(&self, parts: Parts<'_>) -> Aws {
        let aws = self.aws().await;
        provision(&aws, parts, false, &mut |_| {}).await.expect("the stack can be provisioned");
        aws
    }

    /// A client of SQS that bypasses the product.
    pub async fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.sdk(&self.endpoint).await)
    }

    /// A client of DynamoDB that bypasses the product.
    pub async fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.sdk(&self.endpoint).await)
    }

    /// A client of S3 that bypasses the product.
    pub async fn s3(&self) -> aws_sdk_s3::Client {
        s3_client(&self.sdk(&self.endpoint).await)
    }

    /// The variables with which a process uses this stack.
    pub fn environment(&self, names: &Names) -> Vec<(&'static str, String)> {
        use ports::queue::topology::TableRole;
        vec![
            ("ANNALIST_BACKEND", "aws".to_owned()),
            ("ANNALIST_PREFIX", names.prefix().to_owned()),
            ("ANNALIST_TABLE", names.table(TableRole::Archive).to_owned()),
            ("ANNALIST_EXISTENCE_TABLE", names.table(TableRole::Existence).to_owned()),
            ("ANNALIST_CLAIMS_TABLE", names.table(TableRole::Claims).to_owned()),
            ("ANNALIST_BUCKET", names.bucket().to_owned()),
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
        ]
    }

    /// Advances the stack's time: at once if its clock is adjustable, otherwise by waiting.
    pub async fn advance(&'static self, by: Duration) {
        match &self.kind {
            StackKind::Python(running, _) => running.advance(by),
            StackKind::Given | StackKind::LocalStack(_) => tokio::time::sleep(by).await,
        }
    }

    /// The time by which its clock is ahead of this machine's.
    pub fn ahead(&self) -> Duration {
        match &self.kind {
            StackKind::Python(running, _) => running.ahead(),
            StackKind::Given | StackKind::LocalStack(_) => Duration::ZERO,
        }
    }
}

/// A client of S3 for an emulator, which has no host name for each bucket.
pub fn s3_client(sdk: &SdkConfig) -> aws_sdk_s3::Client {
    aws_sdk_s3::Client::from_conf(aws_sdk_s3::config::Builder::from(sdk).force_path_style(true).build())
}

/// Names that no other test, and no other run, uses.
///
/// # Panics
/// Never: the names are valid.
pub fn fresh_names() -> Names {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let run = fastrand::u32(..);
    let name = format!("t{:08x}-{}", run, NUMBER.fetch_add(1, Ordering::Relaxed));
    let tables = ["archive", "existence", "claims"].map(|table| format!("{name}-{table}"));
    let tables = tables.each_ref().map(|table| Some(table.as_str()));
    Names::new(&name, tables, &name).expect("made of letters and digits")
}

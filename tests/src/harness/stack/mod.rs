//! AWS for the tests: what `AWS_ENDPOINT_URL` names, else LocalStack if there is Docker, else ministack in a Python
//! environment that is made here. Never nothing: without any of the three, tests fail and say what to install.
//! Beside ministack, the tests of queues and files run on LocalStack's Python package too, so that one emulator's
//! quirks are noticed.

mod emulator;
mod localstack;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws::Aws;
use aws_config::{Region, SdkConfig};
use aws_sdk_sqs::config::Credentials;
use aws_template::names::Names;

use super::say;
use emulator::{Emulated, LOCALSTACK, MINISTACK, Package};

/// The region everything is in.
pub const REGION: &str = "eu-central-1";
/// The tag of LocalStack's image.
pub const LOCALSTACK_TAG: &str = localstack::TAG;
/// What emulators take for an account's key.
const KEY: &str = "test";

/// A place that speaks AWS's language.
#[derive(Debug)]
pub struct Stack {
    endpoint: String,
    kind: StackKind,
}

#[derive(Debug)]
enum StackKind {
    /// The caller of the tests chose it.
    Given,
    /// A container.
    LocalStack(localstack::LocalStack),
    /// A Python package in a process of its own, with a clock that can be moved.
    Python(Emulated, Emulator),
}

/// What plays AWS, since each does so in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emulator {
    /// Not known: taken for AWS itself.
    Unknown,
    /// LocalStack, in a container: its time passes as it does.
    LocalStack,
    /// The same from its Python package, without DynamoDB. Its clock is moved.
    LocalStackPackage,
    /// Ministack. Its clock is moved.
    Ministack,
}

impl Stack {
    /// The stack of this test run, started by the test that asks first. What ran is said once.
    ///
    /// # Panics
    /// If no stack is available, with what to install.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Stack> = OnceLock::new();
        SHARED.get_or_init(|| {
            let stack = Self::start();
            say(&format!("AWS tests run on {}", stack.name()));
            stack
        })
    }

    /// A stack whose time no other test minds being moved. If time cannot be moved, it is the shared one.
    ///
    /// # Panics
    /// As [`Stack::shared`].
    pub fn with_time_of_its_own() -> &'static Self {
        static OWN: OnceLock<Stack> = OnceLock::new();
        let shared = Self::shared();
        match shared.kind {
            StackKind::Python(..) => OWN.get_or_init(|| Self::start_python(MINISTACK, Emulator::Ministack)),
            StackKind::Given | StackKind::LocalStack(_) => shared,
        }
    }

    /// LocalStack's SQS and S3 from its Python package, started by the test that asks first; its time is moved. There is
    /// no such stack if the shared one is LocalStack already, or was given: then the same tests run there. That is said once.
    ///
    /// # Panics
    /// As [`Stack::shared`].
    pub fn second() -> Option<&'static Self> {
        static SECOND: OnceLock<Option<Stack>> = OnceLock::new();
        SECOND
            .get_or_init(|| {
                let shared = Self::shared();
                if !matches!(shared.kind, StackKind::Python(..)) {
                    say(&format!("no second emulator beside {}", shared.name()));
                    return None;
                }
                let stack = Self::start_python(LOCALSTACK, Emulator::LocalStackPackage);
                say(&format!("tests of queues and files run on {} as well", stack.name()));
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
                say(&format!("no LocalStack: {why}"));
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

    /// Where it is.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it is.
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

    /// Settings of a client. Its endpoint may be another one that leads here: a proxy.
    pub async fn sdk(&self, endpoint: &str) -> SdkConfig {
        self.sdk_in(endpoint, REGION).await
    }

    /// The same in another region.
    pub async fn sdk_in(&self, endpoint: &str, region: &'static str) -> SdkConfig {
        let key = Credentials::new(KEY, KEY, None, None, "tests");
        aws::loader()
            .endpoint_url(endpoint)
            .region(Region::new(region))
            .credentials_provider(key)
            .load()
            .await
    }

    /// An account's worth of names that no other test uses. Nothing is made yet.
    ///
    /// # Panics
    /// Never: the names are good ones.
    pub async fn aws(&self) -> Aws {
        self.aws_at(&self.endpoint, fresh_names()).await
    }

    /// The same names at another endpoint that leads here.
    ///
    /// # Panics
    /// Never: a region is set.
    pub async fn aws_at(&self, endpoint: &str, names: Names) -> Aws {
        Aws::of(self.sdk(endpoint).await, names).expect("a region is set")
    }

    /// The variables that lead a process here.
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

    /// Lets time pass there: at once if the stack's clock can be moved, else by waiting.
    pub async fn advance(&'static self, by: Duration) {
        match &self.kind {
            StackKind::Python(running, _) => running.advance(by),
            StackKind::Given | StackKind::LocalStack(_) => tokio::time::sleep(by).await,
        }
    }

    /// How far its clock was moved ahead of this machine's.
    pub fn ahead(&self) -> Duration {
        match &self.kind {
            StackKind::Python(running, _) => running.ahead(),
            StackKind::Given | StackKind::LocalStack(_) => Duration::ZERO,
        }
    }
}

/// Names that no other test, and no other run, uses.
///
/// # Panics
/// Never: the names are good ones.
pub fn fresh_names() -> Names {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let run = fastrand::u32(..);
    let name = format!("t{:08x}-{}", run, NUMBER.fetch_add(1, Ordering::Relaxed));
    let tables = ["archive", "existence", "claims"].map(|table| format!("{name}-{table}"));
    let tables = tables.each_ref().map(|table| Some(table.as_str()));
    Names::new(&name, tables, &name).expect("made of letters and digits")
}

//! The settings of the viewer: its address and its access control.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ports::clock::SharedClock;
use ports::reread::{ReadAgain, Reread, RereadLimits};
use secrecy::SecretString;
use tokio::task::spawn_blocking;

use super::named_file::{MAX_SETTING_BYTES, read_text};
use super::zone::ZoneArgs;

/// The default address of `annalist view`: loopback only, next to the metrics, never on the listener that
/// Slack reaches.
pub const DEFAULT_VIEWER_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3002));

/// The settings that protect the pages, by their names in [`ViewerArgs`].
pub(super) const GUARDS: [&str; 3] = ["viewer_password_file", "viewer_user_header", "oidc_issuer"];

/// The secret of the pages at the provider with which people sign in. It has no flag: a command line is visible to
/// everyone on the machine.
pub const CLIENT_SECRET: &str = "ANNALIST_OIDC_CLIENT_SECRET";

/// Calls of the API and of MCP that a reader may make in a minute.
const DEFAULT_API_PER_MINUTE: u32 = 120;

/// What a provider is asked for: who it is, and no address.
pub const DEFAULT_SCOPE: &str = "openid profile";

/// Who sees the channels that were public and are private now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ViewerPrivate {
    /// Their members.
    #[default]
    Members,
    /// Every reader.
    All,
}

/// The settings of the viewer.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ViewerArgs {
    /// Address of the web pages. Anything but loopback needs --viewer-password-file or --viewer-user-header [default
    /// of `view`: 127.0.0.1:3002]
    #[arg(long, env = "ANNALIST_VIEWER_LISTEN", value_name = "ADDR")]
    pub viewer_listen: Option<SocketAddr>,
    /// A name under which browsers reach the pages, besides localhost; may be repeated
    #[arg(long, env = "ANNALIST_VIEWER_HOST", value_name = "NAME", value_delimiter = ',')]
    pub viewer_host: Vec<String>,
    /// A file with the password of the pages: one long random word. `auto`: Annalist makes it, in the data folder
    #[arg(
        long,
        env = "ANNALIST_VIEWER_PASSWORD_FILE",
        value_name = "FILE",
        conflicts_with = "viewer_user_header"
    )]
    pub viewer_password_file: Option<PathBuf>,
    /// The header in which a proxy names the reader; nothing but the proxy may reach the address
    #[arg(long, env = "ANNALIST_VIEWER_USER_HEADER", value_name = "HEADER")]
    pub viewer_user_header: Option<String>,
    /// The sign-in, and the people.
    #[command(flatten)]
    pub sign_in: SignInArgs,
    /// Who sees the channels that were public and are private now: their members, or everyone
    #[arg(long, env = "ANNALIST_VIEWER_PRIVATE", value_name = "WHO", value_enum, default_value_t = ViewerPrivate::Members)]
    pub viewer_private: ViewerPrivate,
    /// Calls of the API and of MCP that each reader may make in a minute; 0 for any number
    #[arg(long, env = "ANNALIST_VIEWER_API_PER_MINUTE", value_name = "N", default_value_t = DEFAULT_API_PER_MINUTE)]
    pub viewer_api_per_minute: u32,
    /// Log who reads which channel and file; never what they search for
    #[arg(long, env = "ANNALIST_ACCESS_LOG")]
    pub access_log: bool,
    /// The time zone of the pages
    #[command(flatten)]
    pub zone: ZoneArgs,
}

/// The settings of the sign-in with a provider, and of the people who read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SignInArgs {
    /// The OpenID Connect provider with which readers sign in: slack, or its issuer URL
    #[arg(long, env = "ANNALIST_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,
    /// The client id of the pages at the provider; its secret is in ANNALIST_OIDC_CLIENT_SECRET
    #[arg(long, env = "ANNALIST_OIDC_CLIENT_ID", value_name = "ID")]
    pub oidc_client_id: Option<String>,
    /// The claim that names a reader in the people file; Slack names readers itself [default: sub]
    #[arg(long, env = "ANNALIST_OIDC_USER_CLAIM", value_name = "NAME")]
    pub oidc_user_claim: Option<String>,
    /// A claim that admits readers who are not in the people file; may be repeated
    #[arg(long, env = "ANNALIST_OIDC_REQUIRE", value_name = "CLAIM=VALUE", value_delimiter = ',')]
    pub oidc_require: Vec<String>,
    /// What the provider is asked for [default: openid profile]
    #[arg(long, env = "ANNALIST_OIDC_SCOPE", value_name = "TEXT")]
    pub oidc_scope: Option<String>,
    /// The public address of the pages, such as https://archive.example
    #[arg(long, env = "ANNALIST_VIEWER_URL", value_name = "URL")]
    pub viewer_url: Option<String>,
    /// A JSON file of the names that a proxy or provider gives, and whom in Slack they mean
    #[arg(long, env = "ANNALIST_VIEWER_PEOPLE_FILE", value_name = "FILE")]
    pub viewer_people_file: Option<PathBuf>,
    /// Slack ids of people who see everything, with commas
    #[arg(long, env = "ANNALIST_VIEWER_ADMINS", value_name = "IDS", value_delimiter = ',')]
    pub viewer_admins: Vec<String>,
    /// Admit guests too; they then see every public channel
    #[arg(long, env = "ANNALIST_VIEWER_GUESTS")]
    pub viewer_guests: bool,
}

/// The secret of the pages at the provider, if it is set.
pub fn client_secret() -> Option<SecretString> {
    super::text(CLIENT_SECRET).map(Into::into)
}

/// Reads a file of people now, and again when it is fifteen seconds old, on a thread that may wait for a disk.
///
/// # Errors
/// Why it cannot be used, without any of its names.
pub fn reread_file<T: Send + Sync + 'static>(
    name: &'static str,
    path: &Path,
    clock: SharedClock,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Reread<T>, String> {
    let read =
        move |path: &Path| read_text(path, MAX_SETTING_BYTES).and_then(|text| parse(&text)).map(Arc::new);
    let first = read(path)?;
    let path = path.to_owned();
    let again: ReadAgain<T> = Box::new(move |_| {
        let path = path.clone();
        Box::pin(async move { spawn_blocking(move || read(&path)).await.map_err(|error| error.to_string())? })
    });
    Ok(Reread::new(name, first, FILE_LIMITS, clock, again))
}

/// A file costs nothing to read.
const FILE_LIMITS: RereadLimits = RereadLimits {
    max_age: Duration::from_secs(15),
    min_interval: Duration::from_secs(1),
    time_limit: Duration::from_secs(5),
};

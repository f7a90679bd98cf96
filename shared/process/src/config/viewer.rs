//! The settings of the viewer: its address and its access control.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use super::zone::ZoneArgs;

/// The default address of `annalist view`: loopback only, next to the metrics, never on the listener that
/// Slack reaches.
pub const DEFAULT_VIEWER_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3002));

/// The settings that protect the pages, by their names in [`ViewerArgs`].
pub(super) const GUARDS: [&str; 2] = ["viewer_password_file", "viewer_user_header"];

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
    /// Who sees the channels that were public and are private now: their members, or everyone
    #[arg(long, env = "ANNALIST_VIEWER_PRIVATE", value_name = "WHO", value_enum, default_value_t = ViewerPrivate::Members)]
    pub viewer_private: ViewerPrivate,
    /// The time zone of the pages
    #[command(flatten)]
    pub zone: ZoneArgs,
}

//! What belongs to the pages themselves: the style sheet, the script, the icon. Their names have a hash of what is in them, so that a
//! browser keeps them for good and still has the newest.

use sha2::{Digest, Sha256};
use slack::hex::to_hex;

/// A file that belongs to the pages.
#[derive(Debug)]
pub struct Asset {
    name: &'static str,
    extension: &'static str,
    content: &'static str,
    /// What it is.
    pub content_type: &'static str,
}

/// How pages look.
pub static STYLE: Asset = Asset {
    name: "style",
    extension: "css",
    content: concat!(
        include_str!("../assets/tokens.css"),
        include_str!("../assets/style.css"),
        include_str!("../assets/message.css"),
        include_str!("../assets/figures.css")
    ),
    content_type: "text/css; charset=utf-8",
};

/// What makes pages more comfortable. They work without it.
pub static SCRIPT: Asset = Asset {
    name: "comfort",
    extension: "js",
    content: include_str!("../assets/comfort.js"),
    content_type: "text/javascript; charset=utf-8",
};

/// The icon.
pub static ICON: Asset = Asset {
    name: "icon",
    extension: "svg",
    content: include_str!("../assets/icon.svg"),
    content_type: "image/svg+xml",
};

/// All of them.
pub static ALL: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];

impl Asset {
    /// Its name, with a hash of its content.
    #[must_use]
    pub fn file_name(&self) -> String {
        let hash = to_hex(&Sha256::digest(self.content.as_bytes())[..6]);
        format!("{}-{hash}.{}", self.name, self.extension)
    }

    /// What is in it.
    #[must_use]
    pub fn content(&self) -> &'static str {
        self.content
    }
}

//! The assets of the pages: style sheet, script and icon. Their names contain a hash of their content, so a
//! browser can cache them forever and still loads new versions.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use slack::hex::to_hex;

/// An asset of the pages.
#[derive(Debug)]
pub struct Asset {
    name: &'static str,
    extension: &'static str,
    content: &'static str,
    pub content_type: &'static str,
    /// Every page names the assets, so their content is hashed once.
    file_name: OnceLock<String>,
}

/// The style sheet.
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
    file_name: OnceLock::new(),
};

/// The script, which makes pages more convenient. They work without it.
pub static SCRIPT: Asset = Asset {
    name: "comfort",
    extension: "js",
    content: concat!(
        include_str!("../assets/comfort.js"),
        include_str!("../assets/reading.js"),
        include_str!("../assets/live.js")
    ),
    content_type: "text/javascript; charset=utf-8",
    file_name: OnceLock::new(),
};

pub static ICON: Asset = Asset {
    name: "icon",
    extension: "svg",
    content: include_str!("../assets/icon.svg"),
    content_type: "image/svg+xml",
    file_name: OnceLock::new(),
};

/// The script of the search page of a public site, which no other site has.
pub static SITE_SEARCH: Asset = Asset {
    name: "search",
    extension: "js",
    content: include_str!("../assets/site_search.js"),
    content_type: "text/javascript; charset=utf-8",
    file_name: OnceLock::new(),
};

pub static ALL: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];

impl Asset {
    /// Returns the file name, which contains a hash of the content.
    pub fn file_name(&self) -> &str {
        self.file_name.get_or_init(|| {
            let hash = to_hex(&Sha256::digest(self.content.as_bytes())[..6]);
            format!("{}-{hash}.{}", self.name, self.extension)
        })
    }

    pub fn content(&self) -> &'static str {
        self.content
    }
}

//! Read-only web pages of an archive.
//!
//! * [`pages`] converts data to HTML, one function per page. The link scheme, [`links`], is a parameter and
//!   the only difference between served pages and pages that are written to files; [`public_links`] is that of
//!   a public site.
//! * [`gather`] reads the data of a page from the archive; [`index`] keeps the search index up to date.
//! * [`router`] answers requests, and [`serve`] runs the server. [`file_bytes`] serves files, [`access`]
//!   controls access, [`access_log`] logs who reads what, and [`headers`] sets the security headers of responses.
//! * [`live`] sends new messages to open pages.
//!
//! All displayed data is untrusted. The template engine escapes every text, without exceptions, and the
//! browser may only run the one script that is served here.

pub mod access;
mod access_log;
mod answer;
pub mod assets;
mod cached_value;
pub mod emoji;
mod file_bytes;
pub mod gather;
mod handlers;
mod headers;
pub mod index;
pub mod links;
mod live;
mod live_feed;
mod login;
mod page_thread;
pub mod pages;
pub mod public_links;
mod router;
mod serve;
mod sign_in;
pub mod sniff;
mod state;
pub mod times;
mod wrong_guesses;

pub use answer::{NOT_NOW, program_error};
pub use page_thread::MAX_CONCURRENT_PAGES;
pub use router::{router, wrong_token};
pub use serve::serve;
pub use state::{ReaderArchive, Viewer};

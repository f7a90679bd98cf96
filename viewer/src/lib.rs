//! Web pages over an archive, as people know their channels: it only reads.
//!
//! * [`pages`]: each page as a function from what was read to HTML. Where links lead is a parameter, [`links`]: what serves pages and
//!   what writes them to files differ in nothing else.
//! * [`gather`]: what a page shows, read from the archive; [`index`]: the search index, and how far it has come.
//! * [`router`] answers requests with them, and [`serve`] listens; [`bytes_of`] files, [`access`] says who may ask, [`headers`] what a browser may do
//!   with an answer.
//!
//! All that is shown comes from outside. The template engine escapes every text, nothing says that it need not, and a browser may
//! run nothing but the one script that is served here.

pub mod access;
mod answer;
pub mod assets;
mod bytes_of;
pub mod emoji;
pub mod gather;
mod handlers;
mod headers;
pub mod index;
pub mod links;
mod login;
pub mod pages;
mod router;
mod serve;
pub mod sniff;
pub mod times;

pub use router::{Viewer, router};
pub use serve::serve;

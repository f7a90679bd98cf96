//! Pages over a real archive: what they show, who may ask, and what hostile messages cannot do.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod access;
mod bad_input;
mod browser;
mod channels;
mod files;
mod fixture;
mod hostile;
mod messages;
mod search;
mod timeline;

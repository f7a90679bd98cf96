//! Tests of the pages with a real archive: their content, access control, and hostile messages.
#![expect(clippy::unwrap_used, reason = "test code: a failed unwrap fails the test")]

mod about;
mod access;
mod bad_input;
mod browser;
mod channels;
mod every_shape;
mod feeds;
mod figures;
mod files;
mod fixture;
mod hostile;
mod live;
mod long_texts;
mod messages;
mod private;
mod provider;
mod search;
mod sign_in;
mod timeline;
mod tokens;

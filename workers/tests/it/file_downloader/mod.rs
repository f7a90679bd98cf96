//! The file-downloader against a Slack that answers in every way there is.

mod bodies;
mod claims;
mod crash;
mod erased;
mod fixture;
mod images;
mod places;
mod shares;
mod verdicts;

//! Tests of the file-downloader with a mock Slack and every kind of response.

mod addresses;
mod bodies;
mod canvases;
mod claims;
mod crash;
mod erased;
mod fixture;
mod images;
mod shares;
mod verdicts;

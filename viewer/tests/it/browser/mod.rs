//! Pages in a real browser. `.ci/run` installs it; without it these tests are ignored.
//!
//! * [`site`] serves an archive to a [`testkit::browser`].
//! * [`walk`] tests what a user does, [`reading`] large pictures, links to copy, keys and marked words, [`live`] a page that stays open, [`hostile`] attacks by messages, [`accessible`] accessibility, and
//!   [`report`] the self-contained report.

mod accessible;
mod hostile;
mod live;
mod reading;
mod report;
mod site;
mod walk;

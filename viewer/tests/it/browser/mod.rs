//! Pages in a real browser. `.ci/run` installs it; without it these tests are ignored.
//!
//! * [`site`] serves an archive to a [`testkit::browser`].
//! * [`walk`] tests what a user does, [`hostile`] attacks by messages, [`accessible`] accessibility, and
//!   [`report`] the self-contained report.

mod accessible;
mod hostile;
mod report;
mod site;
mod walk;

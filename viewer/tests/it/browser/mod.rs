//! Pages in a real browser. `.ci/run` installs it; without it these tests are ignored.
//!
//! * [`site`] serves an archive to a [`testkit::browser`].
//! * [`walk`] is what a person does, [`hostile`] what messages would do to them, [`accessible`] what everyone must be able to read,
//!   [`report`] a page that is sent around.

mod accessible;
mod hostile;
mod report;
mod site;
mod walk;

//! The language every part of Annalist speaks.
//!
//! * [`slack`]: what Slack sends: ids, the signature, the envelope, the events.
//! * [`rules`]: pure functions from events to archive updates, and from items to what readers see.
//! * [`archive`], [`queue`]: the ports. Their contract is on each method and in the conformance suites of `tests`.
//! * [`files`]: the third port, for bytes. Two small ones: [`existence`], for what Slack confirmed to exist, and [`claims`],
//!   for who works on what.
//! * [`directory`]: which channel has which name, [`gaps`]: when events may be missing, and [`joined`]: a channel that lies
//!   in several places, for readers.
//! * [`embedded`]: the ports on one SQLite file; [`aws`]: the ports on SQS, DynamoDB and S3.
//! * [`probe`]: an installation's own addresses, asked as Slack and a load balancer ask them.
//! * [`clock`], [`config`], [`telemetry`], [`shutdown`]: the only doors to time, environment, log and signals.

pub mod archive;
#[cfg(feature = "aws")]
pub mod aws;
pub mod claims;
pub mod clock;
pub mod config;
pub mod directory;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod existence;
pub mod files;
pub mod gaps;
pub mod joined;
#[cfg(feature = "web")]
pub mod probe;
pub mod queue;
pub mod rules;
pub mod shutdown;
pub mod slack;
pub mod telemetry;

//! A separate table and bucket for each test.

use std::sync::Arc;

use aws::Aws;
use ports::archive::{Archive, Attributes, ItemKey, Update};
use ports::clock::{ManualClock, TimestampMs};
use serde_json::Value;
use testkit::conformance::archive::ArchiveFixture;
use tests::harness::stack::Stack;

use crate::aws::TABLES_AND_BUCKET;

/// An account with an empty table and an empty bucket.
pub(super) async fn provisioned() -> Aws {
    Stack::shared().provisioned(TABLES_AND_BUCKET).await
}

/// An empty archive.
pub(super) async fn archive() -> Arc<dyn Archive> {
    provisioned().await.archive()
}

pub(super) async fn conformance_fixture() -> ArchiveFixture {
    let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
    let archive = provisioned().await.writing_archive(clock.clone());
    ArchiveFixture { archive, clock, keep: Box::new(()) }
}

/// The item most tests use.
pub(super) fn key() -> ItemKey {
    ItemKey::new("message#T1#C1", "1700000000.000100")
}

/// A JSON object as attributes.
pub(super) fn attributes(json: Value) -> Attributes {
    serde_json::from_value(json).unwrap()
}

/// An unconditional update that sets attributes.
pub(super) fn unguarded_update(key: ItemKey, set: Value) -> Update {
    Update { set: attributes(set), ..Update::new(key) }
}

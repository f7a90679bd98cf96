//! The archive on DynamoDB.

mod answers;
mod batches;
mod bulk;
mod erasures;
mod fixture;
mod lost_answers;
mod model;

use std::time::Duration;

use aws::ERASURE_REFRESH;
use testkit::conformance::archive::{ArchiveTraits, suite};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// The guarantees of DynamoDB.
const DYNAMODB: ArchiveTraits = ArchiveTraits {
    parent_lag: Duration::from_secs(5),
    orders_equal_timestamps_of_a_parent: false,
    erasure_lag: ERASURE_REFRESH,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_dynamodb_archive_conforms() {
    suite(DYNAMODB, || block_in_place(|| Handle::current().block_on(fixture::conformance_fixture()))).await;
}

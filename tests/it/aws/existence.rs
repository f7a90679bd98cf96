//! The cache of the existence check on DynamoDB: the port's contract, and the format of its rows.

use aws_sdk_dynamodb::types::AttributeValue;
use ports::clock::{Clock, SystemClock};
use ports::existence::{CacheKey, Verified};
use ports::queue::topology::TableRole;
use slack::ids::{ChannelId, TeamId, UserId};
use testkit::conformance::existence::{ExistenceFixture, suite};
use tests::harness::stack::Stack;

use super::TABLES_ONLY;

#[tokio::test(flavor = "multi_thread")]
async fn the_dynamodb_existence_cache_conforms() {
    suite(|| async {
        // DynamoDB removes rows by its own clock.
        let existence = Stack::shared().provisioned(TABLES_ONLY).await.existence();
        ExistenceFixture { existence, clock: SystemClock::shared(), keep: Box::new(()) }
    })
    .await;
}

#[tokio::test]
async fn a_row_has_the_format_of_the_seed() {
    let stack = Stack::shared();
    let aws = stack.provisioned(TABLES_ONLY).await;
    let key = CacheKey::new(
        &TeamId::parse("T01234567").unwrap(),
        &UserId::parse("U01234567").unwrap(),
        &ChannelId::parse("C01234567").unwrap(),
    );
    let row = Verified::at(SystemClock.now());
    aws.existence().remember(&[(key, row)]).await.unwrap();
    let client = stack.dynamodb().await;
    let id = AttributeValue::S("T01234567#U01234567#C01234567".into());
    let found =
        client.get_item().table_name(aws.names().table(TableRole::Existence)).key("cache_key", id.clone());
    let found = found.send().await.unwrap().item.unwrap();
    let number = |number: i64| AttributeValue::N(number.to_string());
    let verified_at_s = row.verified_at_s.unwrap();
    let expected =
        [("cache_key", id), ("ttl", number(verified_at_s + 300)), ("verified_at", number(verified_at_s))];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

#[tokio::test]
async fn without_a_table_the_error_names_provision() {
    let aws = Stack::shared().aws().await;
    let existence = aws.existence();
    let line = existence.ready().await.unwrap_err().to_string();
    assert!(line.contains("`annalist provision`") && line.contains("ANNALIST_EXISTENCE_TABLE"), "{line}");
    assert!(!line.contains('\n'));
}

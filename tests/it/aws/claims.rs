//! Claims on DynamoDB.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws::Aws;
use aws_sdk_dynamodb::types::AttributeValue;
use ports::claims::{
    Claim, ClaimAnswer, ClaimContext, ClaimKey, ClaimMode, ClaimOwner, Claims, ClaimsError, DEFAULT_TTL,
};
use ports::clock::{Clock, ManualClock, SystemClock, TimestampMs};
use ports::queue::topology::TableRole;
use slack::ids::{FileId, Ts};
use testkit::conformance::claims::{ClaimsFixture, suite};
use tests::harness::proxy::{Proxy, ProxyFault};
use tests::harness::stack::Stack;

use super::TABLES_ONLY;

const LEASE: Duration = Duration::from_secs(30);

async fn provisioned() -> Aws {
    Stack::shared().provisioned(TABLES_ONLY).await
}

/// A clock set to the current second: DynamoDB may delete rows that it considers expired.
fn clock() -> Arc<ManualClock> {
    ManualClock::starting_at(TimestampMs(SystemClock.now().seconds() * 1000))
}

fn claim(owner: u64) -> Claim {
    let (file, ts) = (FileId::parse("F01").unwrap(), Ts::parse("1700000000.000100").unwrap());
    Claim {
        key: ClaimKey::for_file(&file, &ts),
        owner: ClaimOwner::new("instance", owner),
        about: ClaimContext { file_id: Some(file), ..ClaimContext::default() },
        lease: LEASE,
        ttl: DEFAULT_TTL,
    }
}

/// The number of rows with each status.
pub(super) async fn statuses(aws: &Aws) -> BTreeMap<String, usize> {
    let scan = Stack::shared().dynamodb().await.scan().table_name(aws.names().table(TableRole::Claims));
    let mut statuses = BTreeMap::new();
    for row in scan.consistent_read(true).send().await.unwrap().items.unwrap_or_default() {
        *statuses.entry(row["status"].as_s().unwrap().clone()).or_default() += 1;
    }
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dynamodb_claims_conform() {
    suite(|| async {
        let (aws, clock) = (provisioned().await, clock());
        ClaimsFixture { claims: aws.claims(clock.clone()), clock, keep: Box::new(()) }
    })
    .await;
}

/// Claims behind a proxy that loses the answer to the next request of one kind.
async fn behind(lost: ProxyFault, kind: &'static str) -> (Proxy, Arc<dyn Claims>) {
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    let names = provisioned().await.names().clone();
    let claims = Stack::shared().aws_at(&proxy.endpoint, names).await.claims(clock());
    proxy.break_next(kind, lost);
    (proxy, claims)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_was_lost_recognizes_its_own_write() {
    for lost in [ProxyFault::LostAnswer, ProxyFault::HalfAnAnswer] {
        let (proxy, claims) = behind(lost, "PutItem").await;
        assert_eq!(claims.claim(&claim(1), ClaimMode::IfFree).await, Ok(ClaimAnswer::Claimed));
        assert_eq!(proxy.requests()["PutItem"], 2);
        let second = claims.claim(&claim(2), ClaimMode::IfFree).await;
        assert!(matches!(second, Ok(ClaimAnswer::HeldUntil(_))), "{second:?}");

        proxy.break_next("UpdateItem", lost);
        assert_eq!(claims.renew(&claim(1)).await, Ok(()));
        proxy.break_next("UpdateItem", lost);
        assert_eq!(claims.complete(&claim(1)).await, Ok(()));
        assert_eq!(proxy.requests()["UpdateItem"], 4);

        proxy.break_next("PutItem", lost);
        assert_eq!(claims.claim(&claim(3), ClaimMode::EvenCompleted).await, Ok(ClaimAnswer::Claimed));
        proxy.break_next("DeleteItem", lost);
        assert_eq!(claims.release(&claim(3)).await, Ok(()));
        assert_eq!(proxy.requests()["DeleteItem"], 2);
        assert_eq!(claims.claim(&claim(4), ClaimMode::IfFree).await, Ok(ClaimAnswer::Claimed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_throttled_or_fails_is_retried() {
    for fault in [ProxyFault::Throttled, ProxyFault::Unavailable, ProxyFault::Cut] {
        let (proxy, claims) = behind(fault, "PutItem").await;
        assert_eq!(claims.claim(&claim(1), ClaimMode::IfFree).await, Ok(ClaimAnswer::Claimed), "{fault:?}");
        assert_eq!(proxy.requests()["PutItem"], 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_is_named_in_the_error() {
    let claims = Stack::shared().aws().await.claims(clock());
    let Err(ClaimsError::Unavailable(reason)) = claims.ready().await else { panic!("there is no table") };
    assert!(reason.contains("annalist provision") && reason.contains("ANNALIST_CLAIMS_TABLE"), "{reason}");
    let nowhere = claims.claim(&claim(1), ClaimMode::IfFree).await;
    assert!(matches!(nowhere, Err(ClaimsError::Unavailable(_))), "{nowhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_another_program_wrote_is_named_and_kept() {
    let aws = provisioned().await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let later = (SystemClock.now().seconds() + 3600).to_string();
    let row: HashMap<String, AttributeValue> = [
        ("event_key".to_owned(), text(claim(1).key.as_str())),
        ("processed_at".to_owned(), AttributeValue::N("1700000000".into())),
        ("ttl".to_owned(), AttributeValue::N(later)),
    ]
    .into();
    let put = Stack::shared().dynamodb().await.put_item().table_name(aws.names().table(TableRole::Claims));
    put.set_item(Some(row)).send().await.unwrap();
    let claims = aws.claims(clock());
    for take in [ClaimMode::IfFree, ClaimMode::EvenCompleted] {
        let Err(ClaimsError::Unavailable(reason)) = claims.claim(&claim(1), take).await else {
            panic!("{take:?}")
        };
        assert!(reason.contains("F01_1700000000.000100") && reason.contains("something else"), "{reason}");
    }
    assert_eq!(claims.release(&claim(1)).await, Err(ClaimsError::NotOwner));
}

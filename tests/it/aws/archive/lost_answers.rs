//! A request that took effect but whose answer was lost is sent again: the retry must not treat the first as
//! another writer.

use std::sync::Arc;

use ports::archive::{Archive, ArchiveExt, Guard, Update, WriteOutcome};
use serde_json::json;
use tests::harness::proxy::{Proxy, ProxyFault};
use tests::harness::stack::Stack;

use super::fixture::{self, attributes, key, unguarded_update};

/// An archive behind a proxy that loses the answer to the next request of one kind.
async fn behind(lost: ProxyFault, kind: &'static str) -> (Proxy, Arc<dyn Archive>) {
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    proxy.break_next(kind, lost);
    let names = fixture::provisioned().await.names().clone();
    let archive = Stack::shared().aws_at(&proxy.endpoint, names).await.archive();
    (proxy, archive)
}

fn guards() -> [Guard; 3] {
    let (register, version) = (|| "v".to_owned(), || "1".to_owned());
    [
        Guard::Greater { register: register(), version: version() },
        Guard::Less { register: register(), version: version() },
        Guard::Unchanged { register: register(), expected: None, version: version() },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_write_does_not_lose_against_itself() {
    for (guard, lost) in guards()
        .into_iter()
        .flat_map(|guard| [(guard.clone(), ProxyFault::LostAnswer), (guard, ProxyFault::HalfAnAnswer)])
    {
        let (proxy, archive) = behind(lost, "UpdateItem").await;
        let update = Update { guard, ..unguarded_update(key(), json!({ "text": "t" })) };
        assert_eq!(
            archive.write(&update).await.unwrap(),
            WriteOutcome::Applied,
            "{lost:?} {:?}",
            update.guard
        );
        assert_eq!(proxy.requests()["UpdateItem"], 2);
        let item = archive.get(&key()).await.unwrap().unwrap();
        assert_eq!(item.attributes, attributes(json!({ "text": "t", "v": "1" })));
        // If the caller writes it again, it is a repetition like any other.
        let again = archive.write(&update).await.unwrap();
        assert_eq!(again, WriteOutcome::Rejected(item));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_write_does_not_lose_against_itself() {
    for kind in ["PutItem", "PutObject"] {
        for guard in guards() {
            let (proxy, archive) = behind(ProxyFault::LostAnswer, kind).await;
            let update =
                Update { guard, ..unguarded_update(key(), json!({ "text": "x".repeat(500 * 1024) })) };
            assert_eq!(
                archive.write(&update).await.unwrap(),
                WriteOutcome::Applied,
                "{kind} {:?}",
                update.guard
            );
            assert_eq!(proxy.requests()[kind], 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_whose_download_stops_halfway_is_read_again() {
    for lost in [ProxyFault::LostAnswer, ProxyFault::HalfAnAnswer] {
        let (proxy, archive) = behind(lost, "GetObject").await;
        let text = attributes(json!({ "text": "x".repeat(500 * 1024) }));
        archive.write(&Update { set: text.clone(), ..Update::new(key()) }).await.unwrap();
        assert_eq!(archive.get(&key()).await.unwrap().unwrap().attributes, text);
        assert_eq!(proxy.requests()["GetObject"], 2, "{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_whose_answer_was_lost_finds_the_item_gone() {
    let (proxy, archive) = behind(ProxyFault::LostAnswer, "DeleteItem").await;
    archive.write(&unguarded_update(key(), json!({ "text": "t" }))).await.unwrap();
    let item = archive.get(&key()).await.unwrap().unwrap();
    // For an item that is already gone, the result is `false`: it is unknown whose delete removed it.
    assert!(!archive.delete_unchanged(&item).await.unwrap());
    assert_eq!(proxy.requests()["DeleteItem"], 2);
    assert_eq!(archive.get(&key()).await.unwrap(), None);
}

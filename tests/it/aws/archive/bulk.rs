//! Items that are larger than a row.

use aws::Aws;
use ports::archive::{ArchiveExt, Guard, Item, ItemKey, MAX_ITEM_BYTES, Query, Update, WriteOutcome};
use serde_json::{Value, json};
use tests::harness::stack::Stack;

use super::fixture::{self, attributes, key, unguarded_update};

fn text(kilobytes: usize, letter: &str) -> Value {
    letter.repeat(kilobytes * 1024).into()
}

/// The keys of the objects that store items' bulk.
async fn objects(aws: &Aws) -> Vec<String> {
    let s3 = Stack::shared().s3().await;
    let listed = s3.list_objects_v2().bucket(aws.names().bucket()).prefix("bulk/").send().await;
    listed.unwrap().contents().iter().filter_map(|object| object.key().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_grows_beyond_a_row_and_is_whole_wherever_it_is_read() {
    let aws = fixture::provisioned().await;
    let archive = aws.archive();
    let mut expected = attributes(json!({ "parent": "thread#T1#1" }));
    archive.write(&unguarded_update(key(), Value::Object(expected.clone()))).await.unwrap();
    for (number, kilobytes) in [150, 150, 150, 300, 3, 700].into_iter().enumerate() {
        let (name, value) = (format!("raw#{number}"), text(kilobytes, "é"));
        let update = unguarded_update(key(), json!({ &name: value }));
        assert_eq!(archive.write(&update).await.unwrap(), WriteOutcome::Applied);
        expected.insert(name, value);
        let item = Some(Item { key: key(), attributes: expected.clone() });
        assert_eq!(archive.get(&key()).await.unwrap(), item);
    }
    let item = Item { key: key(), attributes: expected };
    assert_eq!(archive.get_all(&[&key(), &key()]).await.unwrap(), [Some(item.clone()), Some(item.clone())]);
    assert_eq!(
        archive.query(&Query::partition(key().item_id)).await.unwrap().items,
        std::slice::from_ref(&item)
    );
    assert_eq!(
        archive.query(&Query::parent("thread#T1#1")).await.unwrap().items,
        std::slice::from_ref(&item)
    );

    let refused = Guard::Unchanged { register: "v".into(), expected: Some("1".into()), version: "2".into() };
    let refused = archive.write(&Update { guard: refused, ..Update::new(key()) }).await.unwrap();
    assert_eq!(refused, WriteOutcome::Rejected(item.clone()));

    let mut other = item.clone();
    other.attributes.insert("raw#5".into(), text(700, "e"));
    assert!(!archive.delete_unchanged(&other).await.unwrap());
    assert!(archive.delete_unchanged(&item).await.unwrap());
    assert_eq!(archive.get(&key()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_attributes_of_more_than_16_kilobytes_leave_their_row() {
    let aws = fixture::provisioned().await;
    let several = json!({ "text": text(15, "x"), "blocks": text(15, "y"), "raw_event": text(15, "z") });
    aws.archive().write(&unguarded_update(key(), several)).await.unwrap();
    assert_eq!(objects(&aws).await, [""; 0]);
    aws.archive().write(&unguarded_update(key(), json!({ "text": text(17, "x") }))).await.unwrap();
    assert_eq!(objects(&aws).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bulk_is_kept_once_and_all_of_an_item_is_in_one_folder() {
    let aws = fixture::provisioned().await;
    let archive = aws.archive();
    for letter in ["x", "x", "y"] {
        archive.write(&unguarded_update(key(), json!({ "text": text(500, letter) }))).await.unwrap();
    }
    let objects = objects(&aws).await;
    let folders: Vec<_> = objects.iter().filter_map(|object| Some(object.rsplit_once('/')?.0)).collect();
    assert_eq!(folders, [folders[0]; 2], "two contents of one item");
    let other = ItemKey::new(key().item_id, "2");
    archive.write(&unguarded_update(other.clone(), json!({ "text": text(500, "x") }))).await.unwrap();
    assert_eq!(archive.get(&other).await.unwrap().unwrap().attributes.get("text"), Some(&text(500, "x")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_that_is_missing_is_named() {
    let aws = fixture::provisioned().await;
    let archive = aws.archive();
    archive.write(&unguarded_update(key(), json!({ "text": text(500, "x") }))).await.unwrap();
    let object = objects(&aws).await.remove(0);
    let s3 = Stack::shared().s3().await;
    s3.delete_object().bucket(aws.names().bucket()).key(&object).send().await.unwrap();
    let error = archive.get(&key()).await.unwrap_err().to_string();
    assert!(
        error.contains(&object) && error.contains("is missing from bucket") && !error.contains('\n'),
        "{error}"
    );
    // The item can still be replaced: the new value does not need the missing bulk.
    archive.write(&unguarded_update(key(), json!({ "text": "short" }))).await.unwrap();
    let item = archive.get(&key()).await.unwrap().unwrap();
    assert_eq!(item.attributes, attributes(json!({ "text": "short" })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_stops_only_writes_that_need_it() {
    let aws = fixture::provisioned().await;
    Stack::shared().s3().await.delete_bucket().bucket(aws.names().bucket()).send().await.unwrap();
    let archive = aws.archive();
    archive.write(&unguarded_update(key(), json!({ "text": "short" }))).await.unwrap();
    let error = archive
        .write(&unguarded_update(key(), json!({ "text": text(500, "x") })))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("bucket") && error.contains("annalist provision") && !error.contains('\n'),
        "{error}"
    );
    assert_eq!(
        archive.get(&key()).await.unwrap().unwrap().attributes,
        attributes(json!({ "text": "short" }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_may_have_more_small_attributes_than_fit_a_row() {
    let aws = fixture::provisioned().await;
    let archive = aws.archive();
    let entries = |from: usize| -> serde_json::Map<String, Value> {
        (from..from + 120).map(|number| (format!("entry#{number}"), text(2, "x"))).collect()
    };
    for (from, packed) in [(0, 0), (200, 1), (400, 2)] {
        archive.write(&unguarded_update(key(), entries(from).into())).await.unwrap();
        assert_eq!(objects(&aws).await.len(), packed, "after entry {from}");
    }
    let all: serde_json::Map<_, _> = [0, 200, 400].into_iter().flat_map(entries).collect();
    assert_eq!(archive.get(&key()).await.unwrap().unwrap().attributes, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_large_writes_of_one_item_all_survive() {
    const WRITERS: usize = 6;
    let archive = fixture::archive().await;
    let updates: Vec<Update> = (0..WRITERS)
        .map(|writer| unguarded_update(key(), json!({ format!("raw#{writer}"): text(360, "x") })))
        .collect();
    let writes = updates.iter().map(|update| archive.write(update));
    for outcome in futures_util::future::join_all(writes).await {
        assert_eq!(outcome.unwrap(), WriteOutcome::Applied);
    }
    let item = archive.get(&key()).await.unwrap().unwrap();
    assert_eq!(item.attributes.len(), WRITERS);
    assert!(item.attributes.values().all(|value| *value == text(360, "x")));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_bulky_items_are_read_page_by_page() {
    let archive = fixture::archive().await;
    let keys: Vec<ItemKey> = (0..7).map(|number| ItemKey::new("message#T1#C1", number.to_string())).collect();
    for key in &keys {
        archive
            .write(&unguarded_update(key.clone(), json!({ "text": "x".repeat(MAX_ITEM_BYTES - 1024) })))
            .await
            .unwrap();
    }
    let first = archive.query(&Query::partition("message#T1#C1")).await.unwrap();
    assert_eq!(first.items.len(), 4);
    let all = ports::archive::query_all(&*archive, Query::partition("message#T1#C1")).await.unwrap();
    assert_eq!(all.into_iter().map(|item| item.key).collect::<Vec<_>>(), keys);
}

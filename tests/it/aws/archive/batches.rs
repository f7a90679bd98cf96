//! Many items in one call, and many attributes in one item.

use ports::archive::{ArchiveExt, Guard, ItemKey, Update, WriteOutcome};
use serde_json::{Value, json};
use tests::harness::stack::Stack;

use super::fixture::{self, attributes, key, unguarded_update};

fn item(number: usize) -> ItemKey {
    ItemKey::new(format!("message#T1#C{}", number % 7), number.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_items_are_returned_in_the_order_of_the_request() {
    let archive = fixture::archive().await;
    let updates: Vec<Update> =
        (0..230).map(|number| unguarded_update(item(number), json!({ "number": number }))).collect();
    let outcomes = archive.write_all(&updates.iter().collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(WriteOutcome::Applied))), "{outcomes:?}");

    // Some twice, some never written, and some that no table can contain.
    let requested: Vec<ItemKey> = (0..300)
        .rev()
        .chain([5, 5, 229])
        .map(item)
        .chain([ItemKey::new("", ""), ItemKey::new("a", "")])
        .collect();
    let found = archive.get_all(&requested.iter().collect::<Vec<_>>()).await.unwrap();
    assert_eq!(found.len(), requested.len());
    for (key, found) in requested.iter().zip(found) {
        let number = key.timestamp.parse::<usize>().ok().filter(|number| *number < 230);
        let expected = number.map(|number| (key.clone(), attributes(json!({ "number": number }))));
        assert_eq!(found.map(|item| (item.key, item.attributes)), expected);
    }
    assert_eq!(archive.get_all(&[]).await.unwrap(), []);
    assert_eq!(archive.get(&ItemKey::new("", "")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_one_item_keep_their_order_among_those_of_others() {
    let archive = fixture::archive().await;
    let version = |round: usize| Guard::Unchanged {
        register: "v".into(),
        expected: round.checked_sub(1).map(|before| before.to_string()),
        version: round.to_string(),
    };
    let updates: Vec<Update> = (0..10)
        .flat_map(|round| (0..12).map(move |number| (round, number)))
        .map(|(round, number)| Update { guard: version(round), ..Update::new(item(number)) })
        .collect();
    let outcomes = archive.write_all(&updates.iter().collect::<Vec<_>>()).await;
    assert_eq!(outcomes.len(), 120);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(WriteOutcome::Applied))), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_with_more_attributes_than_an_expression_allows_is_still_one_update() {
    let archive = fixture::archive().await;
    let many: Value = (0..600)
        .map(|number| (format!("share#{number}"), json!(true)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let update = |version: &str| Update {
        guard: Guard::Greater { register: "v".into(), version: version.into() },
        set_if_absent: attributes(many.clone()),
        ..unguarded_update(key(), json!({ "text": version }))
    };
    assert_eq!(archive.write(&update("2")).await.unwrap(), WriteOutcome::Applied);
    let item = archive.get(&key()).await.unwrap().unwrap();
    assert_eq!(item.attributes.len(), 602);
    assert_eq!(archive.write(&update("1")).await.unwrap(), WriteOutcome::Rejected(item.clone()));
    assert_eq!(archive.get(&key()).await.unwrap(), Some(item));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_another_program_wrote_can_be_read_changed_and_deleted() {
    use aws_sdk_dynamodb::types::AttributeValue;
    use ports::queue::topology::TableRole;

    let aws = fixture::provisioned().await;
    let (client, table) = (Stack::shared().dynamodb().await, aws.names().table(TableRole::Archive));
    let by_hand = || {
        let row = client.put_item().table_name(table);
        row.item("itemId", AttributeValue::S(key().item_id))
            .item("timestamp", AttributeValue::S(key().timestamp))
            .item("text", AttributeValue::S("by hand".into()))
            .send()
    };
    let archive = aws.archive();
    by_hand().await.unwrap();
    let item = archive.get(&key()).await.unwrap().unwrap();
    assert_eq!(item.attributes, attributes(json!({ "text": "by hand" })));
    assert!(archive.delete_unchanged(&item).await.unwrap());
    by_hand().await.unwrap();
    archive.write(&unguarded_update(key(), json!({ "raw": "x".repeat(500 * 1024) }))).await.unwrap();
    assert_eq!(archive.get(&key()).await.unwrap().unwrap().attributes.len(), 2);
}

//! Responses that AWS sends and the emulator never does, in AWS's wording.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html>

use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, Item, ItemKey, Query, Update, WriteOutcome};
use ports::queue::topology::TableRole;
use serde_json::{Value, json};
use tests::harness::stack::{Stack, fresh_names};
use wiremock::matchers::{header, method};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::fixture::{attributes, key, unguarded_update};

/// A server with scripted responses, and an archive that uses it as AWS.
struct ScriptedArchive {
    server: MockServer,
    archive: Arc<dyn Archive>,
    table: String,
}

impl ScriptedArchive {
    async fn new() -> Self {
        let server = MockServer::start().await;
        let names = fresh_names();
        let table = names.table(TableRole::Archive).to_owned();
        let archive = Stack::shared().aws_at(&server.uri(), names).await.archive();
        Self { server, archive, table }
    }

    /// Sends `answer` to the next `times` requests of an operation, after the answers scripted earlier.
    async fn answers(&self, times: u64, operation: &str, answer: ResponseTemplate) {
        let target = format!("DynamoDB_20120810.{operation}");
        let is_it = Mock::given(method("POST")).and(header("x-amz-target", target.as_str()));
        is_it.respond_with(answer).up_to_n_times(times).mount(&self.server).await;
    }

    /// The requested operations, in order.
    async fn operations(&self) -> Vec<String> {
        let requests = self.server.received_requests().await.unwrap();
        let operation = |request: &wiremock::Request| match request.headers.get("x-amz-target") {
            Some(target) => target.to_str().unwrap().trim_start_matches("DynamoDB_20120810.").to_owned(),
            None => format!("{} S3", request.method),
        };
        requests.iter().map(operation).collect()
    }

    /// The bodies of the requests.
    async fn bodies(&self) -> Vec<Value> {
        let requests = self.server.received_requests().await.unwrap();
        requests.iter().filter_map(|request| request.body_json().ok()).collect()
    }
}

fn response(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(body.to_string(), "application/x-amz-json-1.0")
}

/// An error of DynamoDB, or one that all services share.
fn error(status: u16, kind: &str, message: &str) -> ResponseTemplate {
    response(status, json!({ "__type": kind, "message": message }))
}

fn throttled() -> ResponseTemplate {
    error(
        400,
        "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning \
         level with the UpdateTable API.",
    )
}

fn too_large() -> ResponseTemplate {
    error(
        400,
        "com.amazon.coral.validate#ValidationException",
        "Item size to update has exceeded the maximum allowed size",
    )
}

fn done() -> ResponseTemplate {
    response(200, json!({}))
}

/// A failed condition, with the stored row.
fn refused(row: Option<Value>) -> ResponseTemplate {
    let mut body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        "message": "The conditional request failed",
    });
    if let Some(row) = row {
        body["Item"] = row;
    }
    response(400, body)
}

fn row(key: &ItemKey, stamp: &str, text: &str) -> Value {
    json!({
        "itemId": { "S": key.item_id }, "timestamp": { "S": key.timestamp }, "#w": { "N": stamp }, "text": { "S": text },
    })
}

fn greater(version: &str) -> Update {
    let guard = Guard::Greater { register: "v".into(), version: version.into() };
    Update { guard, ..unguarded_update(key(), json!({ "text": "t" })) }
}

#[tokio::test]
async fn a_new_message_is_one_request() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(1, "UpdateItem", done()).await;
    assert_eq!(scripted.archive.write(&greater("1")).await.unwrap(), WriteOutcome::Applied);
    assert_eq!(scripted.operations().await, ["UpdateItem"]);
    let body = scripted.bodies().await.remove(0);
    assert_eq!(body["TableName"], scripted.table);
    assert_eq!(body["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
    assert_eq!(
        body["Key"],
        json!({ "itemId": { "S": key().item_id }, "timestamp": { "S": key().timestamp } })
    );
}

#[tokio::test]
async fn a_rejected_write_returns_the_stored_item_without_a_read() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(1, "UpdateItem", refused(Some(row(&key(), "1", "other")))).await;
    scripted.answers(1, "UpdateItem", refused(None)).await;
    let item = |attributes| WriteOutcome::Rejected(Item { key: key(), attributes });
    let other = attributes(json!({ "text": "other" }));
    assert_eq!(scripted.archive.write(&greater("1")).await.unwrap(), item(other));
    assert_eq!(scripted.archive.write(&greater("1")).await.unwrap(), item(attributes(json!({}))));
    assert_eq!(scripted.operations().await, ["UpdateItem"; 2]);
}

#[tokio::test]
async fn a_transient_error_is_retried_with_the_same_request() {
    for transient in [
        throttled(),
        error(400, "com.amazonaws.dynamodb.v20120810#ThrottlingException", "Rate exceeded"),
        error(500, "com.amazonaws.dynamodb.v20120810#InternalServerError", "Internal server error"),
        ResponseTemplate::new(503),
    ] {
        let scripted = ScriptedArchive::new().await;
        scripted.answers(1, "UpdateItem", transient).await;
        scripted.answers(1, "UpdateItem", done()).await;
        assert_eq!(scripted.archive.write(&greater("1")).await.unwrap(), WriteOutcome::Applied);
        let bodies = scripted.bodies().await;
        assert_eq!(bodies.len(), 2);
        assert_eq!(
            bodies[0], bodies[1],
            "including the stamp, by which the second attempt recognizes the first"
        );
    }
}

#[tokio::test]
async fn a_lasting_error_is_returned_as_unavailable() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(u64::MAX, "UpdateItem", throttled()).await;
    scripted.answers(u64::MAX, "GetItem", throttled()).await;
    for outcome in [scripted.archive.write(&greater("1")).await.map(drop), scripted.archive.ready().await] {
        let Err(ArchiveError::Unavailable(why)) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("ProvisionedThroughputExceeded") && why.contains(&scripted.table), "{why}");
        assert!(!why.contains('\n'), "{why}");
    }
    assert!(scripted.operations().await.len() <= 10, "it gives up");
}

#[tokio::test]
async fn an_error_that_a_person_must_fix_is_returned_at_once_in_one_line() {
    let unrecognized = "com.amazon.coral.service#UnrecognizedClientException";
    let signature = "com.amazon.coral.service#InvalidSignatureException";
    let denied = "com.amazon.coral.service#AccessDeniedException";
    let missing = "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException";
    for (kind, message, advice) in [
        (unrecognized, "The security token included in the request is invalid.", "AWS_ACCESS_KEY_ID"),
        (
            signature,
            "The request signature we calculated does not match the signature you provided.\n\nThe Canonical String …",
            "AWS_SECRET_ACCESS_KEY",
        ),
        (denied, "User: arn:aws:iam::1:user/a is not authorized to perform: dynamodb:GetItem", "permissions"),
        (missing, "Requested resource not found", "annalist provision"),
    ] {
        let scripted = ScriptedArchive::new().await;
        for operation in ["UpdateItem", "GetItem", "BatchGetItem", "Query"] {
            scripted.answers(1, operation, error(400, kind, message)).await;
        }
        scripted.answers(1, "GetItem", error(400, kind, message)).await;
        let archive = &scripted.archive;
        let item = Item { key: key(), attributes: attributes(json!({})) };
        for outcome in [
            archive.write(&greater("1")).await.map(drop),
            archive.ready().await,
            archive.get_all(&[&key()]).await.map(drop),
            archive.query(&Query::partition("i")).await.map(drop),
            archive.delete_unchanged(&item).await.map(drop),
        ] {
            let Err(ArchiveError::Unavailable(why)) = outcome else { panic!("{kind}: {outcome:?}") };
            assert!(why.contains(advice) && !why.contains('\n'), "{why}");
        }
        assert_eq!(scripted.operations().await.len(), 5, "{kind}: none of these is retried");
    }
}

#[tokio::test]
async fn unprocessed_keys_of_a_batch_are_requested_again() {
    let scripted = ScriptedArchive::new().await;
    let keys: Vec<ItemKey> = (0..3).map(|number| ItemKey::new("i", number.to_string())).collect();
    let primary =
        |key: &ItemKey| json!({ "itemId": { "S": key.item_id }, "timestamp": { "S": key.timestamp } });
    let left = |left: &[ItemKey]| -> Value {
        let keys: Vec<Value> = left.iter().map(primary).collect();
        if keys.is_empty() {
            json!({})
        } else {
            json!({ &scripted.table: { "Keys": keys, "ConsistentRead": true } })
        }
    };
    let answer = |rows: Vec<Value>, left: Value| {
        response(200, json!({ "Responses": { &scripted.table: rows }, "UnprocessedKeys": left }))
    };
    scripted.answers(1, "BatchGetItem", answer(vec![], left(&keys))).await;
    scripted.answers(1, "BatchGetItem", answer(vec![row(&keys[2], "1", "2")], left(&keys[..2]))).await;
    scripted.answers(1, "BatchGetItem", answer(vec![row(&keys[0], "1", "0")], left(&[]))).await;
    let found = scripted.archive.get_all(&keys.iter().collect::<Vec<_>>()).await.unwrap();
    let texts: Vec<_> = found.iter().map(|item| item.as_ref().and_then(|item| item.text("text"))).collect();
    assert_eq!(texts, [Some("0"), None, Some("2")]);
    let requests = scripted.bodies().await;
    let counts =
        requests.iter().map(|body| body["RequestItems"][&scripted.table]["Keys"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [3, 3, 2]);
    assert!(requests.iter().all(|body| body["RequestItems"][&scripted.table]["ConsistentRead"] == true));
}

#[tokio::test]
async fn an_item_too_large_to_update_is_read_and_put_back_until_no_other_write_intervenes() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(1, "UpdateItem", too_large()).await;
    scripted.answers(1, "GetItem", response(200, json!({ "Item": row(&key(), "11", "first") }))).await;
    scripted.answers(1, "PutItem", refused(Some(row(&key(), "12", "second")))).await;
    scripted.answers(1, "GetItem", response(200, json!({ "Item": row(&key(), "12", "second") }))).await;
    scripted.answers(1, "PutItem", done()).await;
    let update = unguarded_update(key(), json!({ "raw": "r" }));
    assert_eq!(scripted.archive.write(&update).await.unwrap(), WriteOutcome::Applied);
    assert_eq!(scripted.operations().await, ["UpdateItem", "GetItem", "PutItem", "GetItem", "PutItem"]);
    let last = scripted.bodies().await.pop().unwrap();
    assert_eq!((&last["Item"]["text"]["S"], &last["Item"]["raw"]["S"]), (&json!("second"), &json!("r")));
    assert_eq!(last["ExpressionAttributeValues"], json!({ ":0": { "N": "12" } }));
    assert_eq!(last["ExpressionAttributeNames"], json!({ "#0": "#w" }));
}

#[tokio::test]
async fn an_item_that_keeps_changing_is_left_for_later() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(u64::MAX, "UpdateItem", too_large()).await;
    scripted.answers(u64::MAX, "GetItem", response(200, json!({ "Item": row(&key(), "11", "first") }))).await;
    scripted.answers(u64::MAX, "PutItem", refused(Some(row(&key(), "12", "second")))).await;
    let outcome = scripted.archive.write(&unguarded_update(key(), json!({ "raw": "r" }))).await;
    assert!(
        matches!(&outcome, Err(ArchiveError::Unavailable(why)) if why.contains("keeps changing")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn bulk_that_two_writers_write_at_once_is_retried() {
    // S3's response if two conditional writes of one key collide:
    // https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
    let conflict = "<Error><Code>ConditionalRequestConflict</Code><Message>The conditional request cannot succeed due to a \
                    conflicting operation against this resource.</Message></Error>";
    let scripted = ScriptedArchive::new().await;
    let put_object = || Mock::given(method("PUT")).and(header("if-none-match", "*"));
    let conflict = ResponseTemplate::new(409).set_body_raw(conflict, "application/xml");
    put_object().respond_with(conflict).up_to_n_times(1).mount(&scripted.server).await;
    put_object().respond_with(ResponseTemplate::new(200)).mount(&scripted.server).await;
    scripted.answers(1, "GetItem", done()).await;
    scripted.answers(1, "PutItem", done()).await;
    let update = unguarded_update(key(), json!({ "raw": "r".repeat(500 * 1024) }));
    assert_eq!(scripted.archive.write(&update).await.unwrap(), WriteOutcome::Applied);
    assert_eq!(scripted.operations().await, ["GetItem", "PUT S3", "PUT S3", "PutItem"]);
}

#[tokio::test]
async fn a_batch_that_always_leaves_keys_unprocessed_is_given_up() {
    let scripted = ScriptedArchive::new().await;
    let primary = json!({ "itemId": { "S": "i" }, "timestamp": { "S": "1" } });
    let left = json!({ &scripted.table: { "Keys": [primary], "ConsistentRead": true } });
    let answer = response(200, json!({ "Responses": { &scripted.table: [] }, "UnprocessedKeys": left }));
    scripted.answers(u64::MAX, "BatchGetItem", answer).await;
    let outcome = scripted.archive.get_all(&[&ItemKey::new("i", "1")]).await;
    assert!(
        matches!(&outcome, Err(ArchiveError::Unavailable(why)) if why.contains("capacity")),
        "{outcome:?}"
    );
    assert!(scripted.operations().await.len() < 50, "each wait is longer than the last");
}

#[tokio::test]
async fn reads_are_consistent_if_dynamodb_supports_it() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(1, "GetItem", done()).await;
    scripted.answers(2, "Query", response(200, json!({ "Items": [], "Count": 0 }))).await;
    let after = Some(ItemKey::new("i", "5"));
    let query = Query { after, descending: true, limit: 7, ..Query::partition("i") };
    scripted.archive.get(&key()).await.unwrap();
    scripted.archive.query(&query).await.unwrap();
    scripted
        .archive
        .query(&Query { after: Some(ItemKey::new("i", "5")), ..Query::parent("p") })
        .await
        .unwrap();
    let [get, table, index] = <[Value; 3]>::try_from(scripted.bodies().await).unwrap();
    assert_eq!(get["ConsistentRead"], true);
    assert_eq!(table["ConsistentRead"], true);
    assert_eq!((&table["Limit"], &table["ScanIndexForward"]), (&json!(7), &json!(false)));
    assert_eq!(table["ExclusiveStartKey"], json!({ "itemId": { "S": "i" }, "timestamp": { "S": "5" } }));
    // An index has no consistent reads: DynamoDB refuses such a query.
    assert_eq!((&index["ConsistentRead"], &index["IndexName"]), (&Value::Null, &json!("parent-index")));
    let start = json!({ "itemId": { "S": "i" }, "timestamp": { "S": "5" }, "parent": { "S": "p" } });
    assert_eq!(index["ExclusiveStartKey"], start);
}

#[tokio::test]
async fn index_entries_without_a_row_in_the_table_are_left_out() {
    let scripted = ScriptedArchive::new().await;
    let in_index = |number: u32| json!({ "itemId": { "S": "i" }, "timestamp": { "S": number.to_string() }, "parent": { "S": "p" } });
    let found = json!({ "Items": [in_index(1), in_index(2), in_index(3)], "LastEvaluatedKey": in_index(3) });
    scripted.answers(1, "Query", response(200, found)).await;
    let mut elsewhere = in_index(3);
    elsewhere["parent"] = json!({ "S": "q" });
    let rows = json!({ "Responses": { &scripted.table: [elsewhere, in_index(1)] }, "UnprocessedKeys": {} });
    scripted.answers(1, "BatchGetItem", response(200, rows)).await;
    let page = scripted.archive.query(&Query::parent("p")).await.unwrap();
    assert_eq!(page.items.into_iter().map(|item| item.key.timestamp).collect::<Vec<_>>(), ["1"]);
    assert_eq!(page.next, Some(ItemKey::new("i", "3")));
    assert_eq!(scripted.operations().await, ["Query", "BatchGetItem"]);
}

#[tokio::test]
async fn an_item_that_is_written_to_while_it_is_deleted_stays() {
    let scripted = ScriptedArchive::new().await;
    scripted.answers(1, "GetItem", response(200, json!({ "Item": row(&key(), "11", "t") }))).await;
    scripted.answers(1, "DeleteItem", refused(None)).await;
    let item = Item { key: key(), attributes: attributes(json!({ "text": "t" })) };
    assert!(!scripted.archive.delete_unchanged(&item).await.unwrap());
    assert_eq!(scripted.operations().await, ["GetItem", "DeleteItem"]);
    let [get, delete] = <[Value; 2]>::try_from(scripted.bodies().await).unwrap();
    assert_eq!(get["ConsistentRead"], true);
    assert_eq!(delete["ConditionExpression"], "#0=:0");
    assert_eq!(delete["ExpressionAttributeNames"], json!({ "#0": "#w" }));
    assert_eq!(delete["ExpressionAttributeValues"], json!({ ":0": { "N": "11" } }));
}

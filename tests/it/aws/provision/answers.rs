//! Responses that AWS may send and an emulator does not.

use super::*;

/// An AWS with scripted answers: a status and a body for an operation. An operation of S3 is the method and
/// the query.
async fn scripted(
    answer: impl Fn(&str, &Request) -> (u16, String) + Send + Sync + 'static,
) -> (MockServer, Aws) {
    let server = MockServer::start().await;
    let respond = move |request: &Request| {
        let target = request.headers.get("x-amz-target").map(|target| target.to_str().unwrap().to_owned());
        let operation = match &target {
            Some(target) => target.rsplit('.').next().unwrap().to_owned(),
            None => format!("{} {}", request.method, request.url.query().unwrap_or_default()),
        };
        let (status, body) = answer(operation.split("&x-id").next().unwrap(), request);
        ResponseTemplate::new(status).set_body_string(body)
    };
    Mock::given(any()).respond_with(respond).mount(&server).await;
    let aws = Stack::shared().aws_at(&server.uri(), fresh_names()).await;
    (server, aws)
}

fn s3_error(code: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>AWS says no</Message></Error>")
}

fn json_error(code: &str) -> (u16, String) {
    (400, json!({ "__type": code, "message": "AWS says no" }).to_string())
}

const NO_BUCKET: &str = "NoSuchBucket";
const TAGGING: &str = "GET tagging";

#[tokio::test]
async fn a_bucket_that_may_not_be_read_belongs_to_another_owner() {
    let (server, aws) = scripted(|_, _| (403, s3_error("AccessDenied"))).await;
    let (steps, result) = run(&aws, BUCKET_ONLY, false).await;
    let error = result.unwrap_err();
    assert!(matches!(error, ProvisionError::Foreign { .. }), "{error:?}");
    assert!(error.to_string().contains("set ANNALIST_BUCKET to another name"), "{error}");
    assert_eq!(steps, []);
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.method.as_str() == "GET"));
}

#[tokio::test]
async fn a_bucket_of_another_account_is_an_error_that_asks_for_another_name() {
    let (_server, aws) = scripted(|operation, _| match operation {
        TAGGING => (404, s3_error(NO_BUCKET)),
        _ => (409, s3_error("BucketAlreadyExists")),
    })
    .await;
    let line = run(&aws, BUCKET_ONLY, false).await.1.unwrap_err().to_string();
    assert!(line.contains("another account") && line.contains("ANNALIST_BUCKET"), "{line}");
}

#[tokio::test]
async fn a_refusal_of_aws_is_one_line_with_advice() {
    for (parts, code, expected) in [
        (ONE_QUEUE, "AccessDeniedException", "give their role the permissions"),
        (ONE_QUEUE, "InvalidClientTokenId", "AWS_ACCESS_KEY_ID"),
        (TABLES_ONLY, "AccessDeniedException", "ANNALIST_TABLE"),
        (TABLES_ONLY, "ExpiredTokenException", "have expired"),
    ] {
        let (_server, aws) = scripted(move |_, _| json_error(code)).await;
        let (steps, result) = run(&aws, parts, false).await;
        let line = result.unwrap_err().to_string();
        assert!(line.contains(expected) && !line.contains('\n'), "{line}");
        assert_eq!(steps, []);
    }
    for (status, code, expected) in [
        (301, "PermanentRedirect", "AWS_REGION"),
        (403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
        (400, "ExpiredToken", "have expired"),
    ] {
        let (_server, aws) = scripted(move |_, _| (status, s3_error(code))).await;
        let line = run(&aws, BUCKET_ONLY, false).await.1.unwrap_err().to_string();
        assert!(line.contains(expected) && !line.contains('\n'), "{line}");
    }
}

#[tokio::test]
async fn us_east_1_gets_no_location_constraint() {
    for (region, names_it) in [("us-east-1", false), ("eu-west-1", true)] {
        let (server, aws) = scripted(|operation, _| match operation {
            TAGGING => (404, s3_error(NO_BUCKET)),
            "PUT " => (409, s3_error("BucketAlreadyExists")),
            other => panic!("{other}"),
        })
        .await;
        let sdk = Stack::shared().sdk(&server.uri()).await.into_builder().region(Region::new(region)).build();
        let aws = Aws::from_sdk_config(sdk, aws.names().clone()).unwrap();
        assert!(run(&aws, BUCKET_ONLY, false).await.1.is_err());
        let requests = server.received_requests().await.unwrap();
        let create = requests.iter().find(|request| request.method.as_str() == "PUT").unwrap();
        let body = String::from_utf8_lossy(&create.body);
        assert_eq!(
            body.contains(&format!("<LocationConstraint>{region}</LocationConstraint>")),
            names_it,
            "{body}"
        );
        assert_eq!(body.contains("LocationConstraint"), names_it);
        assert!(body.contains(TAG), "a bucket has our tag from its creation on: {body}");
    }
}

#[tokio::test]
async fn provision_waits_for_a_new_table_and_its_backups() {
    let [described, secured] = [(); 2].map(|()| AtomicU32::new(0));
    let (server, aws) = scripted(move |operation, request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let name = body["TableName"].as_str().or(body["ResourceArn"].as_str()).unwrap();
        let (prefix, is_archive) = (name.rsplit_once('-').unwrap().0, name.ends_with("-archive"));
        let key = if name.ends_with("-claims") { "event_key" } else { "cache_key" };
        let table = |status: &str| {
            json!({
                "TableName": name,
                "TableStatus": status,
                // As an ARN ends with the name, a request that has only the ARN is distinguished as well.
                "TableArn": name,
                "KeySchema": [{ "AttributeName": key, "KeyType": "HASH" }],
                "BillingModeSummary": { "BillingMode": "PAY_PER_REQUEST" },
                "GlobalSecondaryIndexes":
                    if is_archive { json!([{ "IndexName": "parent-index", "IndexStatus": "ACTIVE" }]) } else { json!([]) },
            })
        };
        let answer = match operation {
            "DescribeTable" if is_archive => match described.fetch_add(1, SeqCst) {
                // Missing; then created but not yet visible everywhere, being created, and active.
                0 | 1 => return json_error("ResourceNotFoundException"),
                2 => json!({ "Table": table("CREATING") }),
                _ => json!({ "Table": table("ACTIVE") }),
            },
            "DescribeTable" => json!({ "Table": table("ACTIVE") }),
            "ListTagsOfResource" => json!({ "Tags": [{ "Key": TAG, "Value": prefix }] }),
            "CreateTable" => json!({ "TableDescription": table("CREATING") }),
            "DescribeTimeToLive" if is_archive => {
                json!({ "TimeToLiveDescription": { "TimeToLiveStatus": "DISABLED" } })
            }
            "DescribeTimeToLive" => {
                json!({ "TimeToLiveDescription": { "TimeToLiveStatus": "ENABLING", "AttributeName": "ttl" } })
            }
            "UpdateTimeToLive" => {
                assert_eq!(body["TimeToLiveSpecification"]["AttributeName"], "#expires");
                json!({ "TimeToLiveSpecification": body["TimeToLiveSpecification"] })
            }
            "DescribeContinuousBackups" => json!({}),
            "UpdateContinuousBackups" => match secured.fetch_add(1, SeqCst) {
                0 => return json_error("ContinuousBackupsUnavailableException"),
                _ => json!({}),
            },
            other => panic!("{other}"),
        };
        (200, answer.to_string())
    })
    .await;
    let (steps, result) = run(&aws, TABLES_ONLY, false).await;
    let changes: Vec<&ResourceChange> = steps.iter().map(|step| &step.change).collect();
    assert_eq!(
        (result, changes),
        (Ok(()), vec![&ResourceChange::Create, &ResourceChange::Keep, &ResourceChange::Keep])
    );
    let requests = server.received_requests().await.unwrap();
    let of = |operation: &str| {
        let target = format!("DynamoDB_20120810.{operation}");
        requests.iter().filter(|request| request.headers["x-amz-target"] == target.as_str()).count()
    };
    assert_eq!((of("CreateTable"), of("UpdateContinuousBackups"), of("UpdateTable")), (1, 2, 0));
}

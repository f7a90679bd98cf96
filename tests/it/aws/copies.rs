//! Copies in a bucket: the same command, with the bucket of the stack.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tests::harness::binaries::binaries;
use tests::harness::command::{CommandOutput, run};
use tests::harness::process;
use tests::harness::stack::Stack;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::BUCKET_ONLY;

/// More blocks than a page of a listing has.
const ROWS: usize = 40_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_a_bucket_is_listed_checked_cleaned_and_restored() {
    let stack = Stack::shared();
    let aws = stack.provisioned(BUCKET_ONLY).await;
    let folder = tempfile::tempdir().unwrap();
    let (data, restored) = (folder.path().join("data"), folder.path().join("restored"));
    process::up(&*data).await.process.stop().await;
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let insert = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ROWS})
         INSERT INTO items (item_id, timestamp, attributes)
         SELECT 'message#T1#C1', (1700000000 + n) || '.000000', '{{\"content_version\":\"1\"}}' FROM n"
    );
    database.execute_batch(&insert).unwrap();
    let environment = stack.environment(aws.names());
    let variables: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let annalist = async |data: &Path, args: &[&str]| -> CommandOutput {
        // Only what names and reaches the bucket.
        let own = variables.iter().filter(|(name, _)| name.starts_with("AWS_")).copied();
        let own: Vec<(&str, &str)> = own.chain([("ANNALIST_DATA", data.to_str().unwrap())]).collect();
        run(&binaries().annalist, args, &own).await
    };
    let to = format!("s3://{}/copies/of annalist", aws.names().bucket()).replace(' ', "-");
    let json = |output: CommandOutput| -> Vec<Value> {
        output.succeeded().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let first = json(annalist(&data, &["copy", "--to", &to, "--json"]).await).remove(0);
    assert!(first["new_blocks"].as_u64().unwrap() > 1_000, "{first}");
    database.execute("UPDATE items SET attributes = '{}' WHERE timestamp = '1700000001.000000'", []).unwrap();
    let second = json(annalist(&data, &["copy", "--to", &to, "--json", "--copy-keep", "0d"]).await).remove(0);
    assert!(second["new_blocks"].as_u64().unwrap() <= 2, "{second}");
    let listed = json(annalist(&data, &["copy", "--to", &to, "--list", "--json"]).await);
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["at"], &listed[0]["messages"]), (&second["at"], &(ROWS - 1).into()), "{listed:?}");
    annalist(&data, &["verify", "--copy", &to]).await.succeeded();
    annalist(&restored, &["restore", &to]).await.succeeded();
    annalist(&restored, &["verify", "--copy", &to]).await.succeeded();
    let missing = annalist(&data, &["copy", "--to", "s3://there-is-no-such-bucket"]).await;
    missing.assert_refused(1, "there-is-no-such-bucket");
}

/// An S3 whose disk becomes full.
#[derive(Clone, Default)]
struct FullS3 {
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    is_full: Arc<AtomicBool>,
}

impl Respond for FullS3 {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut objects = self.objects.lock().unwrap();
        let key = request.url.path().trim_start_matches("/full").trim_start_matches('/').to_owned();
        let error = |status, code| {
            ResponseTemplate::new(status).set_body_string(format!("<Error><Code>{code}</Code></Error>"))
        };
        match request.method.as_str() {
            "PUT" if self.is_full.load(SeqCst) => error(507, "XMinioStorageFull"),
            "PUT" if objects.contains_key(&key) => error(412, "PreconditionFailed"),
            "PUT" => {
                objects.insert(key, request.body.clone());
                ResponseTemplate::new(200)
            }
            "GET" if key.is_empty() => {
                let prefix = request.url.query_pairs().find(|(name, _)| name == "prefix");
                let prefix = prefix.map(|(_, prefix)| prefix.into_owned()).unwrap_or_default();
                let below = objects.iter().filter(|(key, _)| key.starts_with(&prefix));
                let listed = below.map(|(key, bytes)| {
                    format!("<Contents><Key>{key}</Key><Size>{}</Size></Contents>", bytes.len())
                });
                let listed: String = listed.collect();
                ResponseTemplate::new(200).set_body_string(format!(
                    "<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"
                ))
            }
            "GET" => match objects.get(&key) {
                Some(bytes) => ResponseTemplate::new(200).set_body_bytes(bytes.clone()),
                None => error(404, "NoSuchKey"),
            },
            _ => ResponseTemplate::new(200),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_bucket_is_one_line_and_the_copy_before_stays_whole() {
    let (server, s3) = (MockServer::start().await, FullS3::default());
    Mock::given(any()).respond_with(s3.clone()).mount(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let (data, restored) = (folder.path().join("data"), folder.path().join("restored"));
    process::up(&*data).await.process.stop().await;
    let endpoint = server.uri();
    let annalist = async |data: &Path, args: &[&str]| -> CommandOutput {
        let own = [
            ("ANNALIST_DATA", data.to_str().unwrap()),
            ("AWS_ENDPOINT_URL_S3", &endpoint),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "key"),
        ];
        run(&binaries().annalist, args, &own).await
    };
    annalist(&data, &["copy", "--to", "s3://full"]).await.succeeded();
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    database
        .execute(
            "INSERT INTO items (item_id, timestamp, attributes) VALUES ('message#T1#C1', '1.0', '{}')",
            [],
        )
        .unwrap();
    s3.is_full.store(true, SeqCst);
    annalist(&data, &["copy", "--to", "s3://full"]).await.assert_refused(1, "XMinioStorageFull");
    let status = annalist(&data, &["status"]).await.succeeded();
    assert!(status.stdout.contains("XMinioStorageFull"), "{}", status.stdout);
    annalist(&restored, &["restore", "s3://full"]).await.succeeded();
    annalist(&data, &["verify", "--copy", "s3://full"]).await.succeeded();
    s3.is_full.store(false, SeqCst);
    annalist(&data, &["copy", "--to", "s3://full"]).await.succeeded();
}

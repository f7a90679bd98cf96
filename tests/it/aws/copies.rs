//! Copies in a bucket: the same command, with the bucket of the stack.

use std::path::Path;

use serde_json::Value;
use tests::harness::binaries::binaries;
use tests::harness::command::{CommandOutput, run};
use tests::harness::process;
use tests::harness::stack::Stack;

use super::BUCKET_ONLY;

/// More blocks than a page of a listing has.
const ROWS: usize = 100_000;

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

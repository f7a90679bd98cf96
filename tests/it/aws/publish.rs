//! A public site in a bucket: the same command, with the bucket of the stack.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tests::harness::binaries::binaries;
use tests::harness::command::{CommandOutput, run};
use tests::harness::stack::Stack;

use super::BUCKET_ONLY;

/// The files of a site by their paths, without its state.
fn in_folder(site: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(site).unwrap().to_str().unwrap().to_owned();
        if path.is_file() {
            files.insert(name, std::fs::read(path).unwrap());
        } else if name != ".annalist" {
            in_folder(site, &path, files);
        }
    }
}

async fn in_bucket(client: &aws_sdk_s3::Client, bucket: &str) -> BTreeMap<String, Vec<u8>> {
    let listed = client.list_objects_v2().bucket(bucket).prefix("site/").send().await.unwrap();
    let mut files = BTreeMap::new();
    for key in listed.contents().iter().map(|object| object.key().unwrap()) {
        let object = client.get_object().bucket(bucket).key(key).send().await.unwrap();
        if key.ends_with(".html") {
            assert_eq!(object.content_type(), Some("text/html; charset=utf-8"), "{key}");
            assert_eq!(object.cache_control(), Some("max-age=300"), "{key}");
        }
        let content = object.body.collect().await.unwrap().to_vec();
        files.insert(key.trim_start_matches("site/").to_owned(), content);
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_has_what_the_folder_of_a_site_has_after_each_run() {
    let stack = Stack::shared();
    let aws = stack.provisioned(BUCKET_ONLY).await;
    let folder = tempfile::tempdir().unwrap();
    let [data, export, site] = ["data", "export", "site"].map(|name| folder.path().join(name));
    let bucket = aws.names().bucket();
    let environment = stack.environment(aws.names());
    // Only what names and reaches the bucket.
    let reached = environment.iter().filter(|(name, _)| name.starts_with("AWS_"));
    let mut variables: Vec<(&str, &str)> = reached.map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("ANNALIST_DATA", data.to_str().unwrap()));
    let annalist = async |args: &[&str]| -> CommandOutput {
        run(&binaries().annalist, args, &variables).await.succeeded()
    };
    let write = |name: &str, content: Value| {
        let path = export.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    };
    let message = |ts: &str| json!([{ "type": "message", "user": "U01", "text": "hello", "ts": ts }]);
    write("users.json", json!([{ "id": "U01", "team_id": "T1", "name": "ada" }]));
    write("channels.json", json!([{ "id": "C1", "name": "general" }, { "id": "C2", "name": "random" }]));
    write("random/2023-11-14.json", message("1700000000.000100"));
    let to = format!("s3://{bucket}/site");
    let publish = async || -> Value {
        let args = ["publish", "--all-public", "--search", "off", "--url", "https://example.org/", "--json"];
        let args = [&args[..], &["--out", site.to_str().unwrap(), "--upload", &to]].concat();
        serde_json::from_str(&annalist(&args).await.stdout).unwrap()
    };
    let client = stack.s3().await;
    let mut written = Vec::new();
    for step in ["general/2023-11-14.json", "general/2023-12-14.json", "", "erase"] {
        match step {
            "" => {}
            "erase" => drop(annalist(&["erase", "--channel", "C2", "--yes"]).await),
            day => {
                let ts = if day.contains("-11-") { "1700000001.000100" } else { "1702600000.000100" };
                write(day, message(ts));
                annalist(&["import", export.to_str().unwrap()]).await;
            }
        }
        let uploaded = publish().await["uploaded"].clone();
        let mut expected = BTreeMap::new();
        in_folder(&site, &site, &mut expected);
        let found = in_bucket(&client, bucket).await;
        assert!(found == expected, "{step}: {:?} instead of {:?}", found.keys(), expected.keys());
        written.push((uploaded["written"].as_u64().unwrap(), uploaded["deleted"].as_u64().unwrap()));
    }
    let [(all, 0), (some, 0), (0, 0), (_, gone)] = written[..] else { panic!("{written:?}") };
    assert!(some < all && gone >= 3, "{written:?}");
}

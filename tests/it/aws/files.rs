//! Files on S3: the port's contract, multipart uploads, and S3's responses.

mod answers;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use aws::Aws;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use bytes::Bytes;
use ports::files::{FileKey, FileWriter, FilesError, Published};
use s3::Bucket;
use s3::fault::CallSubject;
use slack::ids::TeamId;
use testkit::conformance::files::{self, Creation, FilesFixture};
use tests::harness::stack::{Emulator, Stack, fresh_names};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::BUCKET_ONLY;

const MIB: usize = 1024 * 1024;

/// An account with only a bucket.
async fn with_bucket() -> Aws {
    Stack::shared().provisioned(BUCKET_ONLY).await
}

fn key(name: &str) -> FileKey {
    FileKey::image(&TeamId::parse("T1").unwrap(), name)
}

fn noise(seed: u64, size_bytes: usize) -> Bytes {
    let mut bytes = vec![0; size_bytes];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes.into()
}

async fn begin(aws: &Aws, key: &FileKey, content: &Bytes) -> Box<dyn FileWriter> {
    let mut writer = aws.files().create(key).await.unwrap();
    // The size of a chunk on the network.
    for start in (0..content.len()).step_by(16 * 1024) {
        writer.write(content.slice(start..content.len().min(start + 16 * 1024))).await.unwrap();
    }
    writer
}

/// The bytes that are stored under a key.
pub(super) async fn read(aws: &Aws, key: &FileKey) -> Result<Option<Bytes>, FilesError> {
    let Some(mut reader) = aws.files().open(key).await? else { return Ok(None) };
    let mut content = Vec::new();
    while let Some(chunk) = reader.next().await? {
        content.extend_from_slice(&chunk);
    }
    Ok(Some(content.into()))
}

/// The multipart uploads that are neither completed nor aborted.
async fn unfinished(aws: &Aws) -> Vec<String> {
    unfinished_on(Stack::shared(), aws).await
}

async fn unfinished_on(stack: &Stack, aws: &Aws) -> Vec<String> {
    let found = stack.s3().await.list_multipart_uploads().bucket(aws.names().bucket()).send().await.unwrap();
    found.uploads().iter().map(|upload| upload.upload_id().unwrap().to_owned()).collect()
}

/// Polls until a dropped writer's upload is gone.
async fn wait_until_no_upload_is_unfinished(aws: &Aws) {
    let gone = async {
        while !unfinished(aws).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("an upload was left behind");
}

async fn conform(stack: &'static Stack) {
    files::suite(creation(stack), || {
        let aws = block_in_place(|| Handle::current().block_on(stack.provisioned(BUCKET_ONLY)));
        FilesFixture { files: aws.files(), keep: Box::new(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_on_s3_conform() {
    conform(Stack::shared()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_on_s3_conform_on_a_second_emulator() {
    let Some(stack) = Stack::second_emulator() else { return };
    conform(stack).await;
    assert_one_of_two_long_files_is_new(stack, creation(stack)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_below_a_prefix_conform_and_stay_below_it() {
    let stack = Stack::shared();
    let (aws, sdk) = (with_bucket().await, stack.sdk(stack.endpoint()).await);
    let below = |prefix: &str| {
        let subject = CallSubject {
            service: "S3",
            resource: format!("bucket {}", aws.names().bucket()),
            setting: "ANNALIST_FILES",
            to_create: "create it",
            region: aws.region().to_owned(),
        };
        Bucket::new(&sdk, aws.names().bucket(), prefix, subject).files()
    };
    let suites = AtomicUsize::new(0);
    files::suite(creation(stack), || {
        let prefix = format!("archive/{}/", suites.fetch_add(1, SeqCst));
        FilesFixture { files: below(&prefix), keep: Box::new(()) }
    })
    .await;
    let objects = stack.s3().await.list_objects_v2().bucket(aws.names().bucket()).send().await.unwrap();
    let keys: Vec<&str> = objects.contents().iter().filter_map(|object| object.key()).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.starts_with("archive/")), "{keys:?}");
}

#[tokio::test]
async fn a_long_file_is_uploaded_in_parts_with_one_part_in_memory() {
    let aws = with_bucket().await;
    let (name, content) = (key("long"), noise(1, 30 * MIB));
    let mut writer = aws.files().create(&name).await.unwrap();
    let client = Stack::shared().s3().await;
    for (number, mebibyte) in (1..).zip((0..30).map(|n| content.slice(n * MIB..(n + 1) * MIB))) {
        writer.write(mebibyte).await.unwrap();
        // At most the last 8 MiB have not been sent.
        let (parts_sent, uploads) = ((number - 1) / 8, unfinished(&aws).await);
        assert_eq!(uploads.len(), usize::from(parts_sent > 0), "after {number} MiB");
        if let [upload] = uploads.as_slice() {
            let parts = client.list_parts().bucket(aws.names().bucket()).key(name.as_str());
            let parts = parts.upload_id(upload).send().await.unwrap();
            let sizes: Vec<usize> = parts.parts().iter().map(|part| part.size().unwrap() as usize).collect();
            assert_eq!(sizes, vec![8 * MIB; parts_sent]);
        }
    }
    assert_eq!(writer.publish().await.unwrap(), Published::New);
    let found = client.head_object().bucket(aws.names().bucket()).key(name.as_str()).send().await.unwrap();
    assert!(found.e_tag().unwrap().trim_matches('"').ends_with("-4"), "{found:?}");
    assert!(read(&aws, &name).await.unwrap() == Some(content));
    assert_eq!(unfinished(&aws).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_fits_one_part_is_one_request() {
    let aws = with_bucket().await;
    for (size_bytes, in_parts) in [(0, false), (8 * MIB, false), (8 * MIB + 1, true)] {
        let name = key(&size_bytes.to_string());
        let writer = begin(&aws, &name, &noise(1, size_bytes)).await;
        assert_eq!(unfinished(&aws).await.len(), usize::from(in_parts));
        assert_eq!(writer.publish().await.unwrap(), Published::New);
        let client = Stack::shared().s3().await;
        let found = client.head_object().bucket(aws.names().bucket()).key(name.as_str()).send().await;
        assert_eq!(found.unwrap().e_tag().unwrap().contains('-'), in_parts, "{size_bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_long_files_under_one_key_is_new() {
    let stack = Stack::shared();
    assert_one_of_two_long_files_is_new(stack, creation(stack)).await;
}

/// LocalStack 4.5 checks for an object first and writes it later, for both single and multipart uploads.
fn creation(stack: &Stack) -> Creation {
    match stack.emulator() {
        Emulator::Unknown | Emulator::Ministack => Creation::Atomic,
        Emulator::LocalStack | Emulator::LocalStackPackage => Creation::ChecksFirst,
    }
}

async fn assert_one_of_two_long_files_is_new(stack: &Stack, creation: Creation) {
    for round in 0..4 {
        let aws = stack.provisioned(BUCKET_ONLY).await;
        let name = key("contended");
        let contents = [noise(2 * round, 9 * MIB), noise(2 * round + 1, 9 * MIB)];
        let (first, second) =
            tokio::join!(begin(&aws, &name, &contents[0]), begin(&aws, &name, &contents[1]));
        let published = match creation {
            Creation::Atomic => {
                let [first, second] = [first, second].map(|writer| tokio::spawn(writer.publish()));
                [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()]
            }
            Creation::ChecksFirst => [first.publish().await.unwrap(), second.publish().await.unwrap()],
        };
        let winner = published.iter().position(|published| *published == Published::New).unwrap();
        assert_eq!(published[1 - winner], Published::AlreadyThere);
        assert!(read(&aws, &name).await.unwrap().as_ref() == Some(&contents[winner]));
        // The loser's upload is gone as well.
        assert_eq!(unfinished_on(stack, &aws).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_dropped_writer_leaves_no_upload() {
    let aws = with_bucket().await;
    let writer = begin(&aws, &key("dropped"), &noise(1, 17 * MIB)).await;
    assert_eq!(unfinished(&aws).await.len(), 1);
    drop(writer);
    wait_until_no_upload_is_unfinished(&aws).await;
    assert_eq!(read(&aws, &key("dropped")).await.unwrap(), None);
}

#[tokio::test]
async fn a_file_is_found_under_its_key() {
    let aws = with_bucket().await;
    begin(&aws, &key("a"), &noise(1, 10)).await.publish().await.unwrap();
    let client = Stack::shared().s3().await;
    let found = client.head_object().bucket(aws.names().bucket()).key(key("a").as_str()).send().await;
    assert_eq!(found.unwrap().content_length(), Some(10));
}

/// Makes a bucket keep what is replaced or deleted, as the template's does.
pub(super) async fn keep_versions(stack: &Stack, bucket: &str) {
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    let request = stack.s3().await.put_bucket_versioning().bucket(bucket).versioning_configuration(enabled);
    request.send().await.unwrap();
}

async fn assert_a_deleted_file_has_no_older_version(stack: &Stack) {
    let aws = stack.provisioned(BUCKET_ONLY).await;
    let (client, bucket) = (stack.s3().await, aws.names().bucket());
    keep_versions(stack, bucket).await;
    let deleted = key("deleted");
    for round in 0..3 {
        begin(&aws, &deleted, &noise(round, 10)).await.publish().await.unwrap();
        client.delete_object().bucket(bucket).key(deleted.as_str()).send().await.unwrap();
    }
    begin(&aws, &deleted, &noise(3, 10)).await.publish().await.unwrap();
    let kept = format!("{}.1", deleted.as_str());
    client.put_object().bucket(bucket).key(&kept).send().await.unwrap();
    let versions = async || {
        let page = client.list_object_versions().bucket(bucket).send().await.unwrap();
        let marks = page.delete_markers().iter().filter_map(|mark| mark.key());
        let versions = page.versions().iter().filter_map(|version| version.key());
        versions.chain(marks).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(versions().await.len(), 4 + 3 + 1);

    assert_eq!(aws.files().delete(&deleted).await, Ok(true));
    assert_eq!(versions().await, [kept]);
    assert_eq!(aws.files().delete(&deleted).await, Ok(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_file_has_no_older_version_in_a_bucket_with_versions() {
    assert_a_deleted_file_has_no_older_version(Stack::shared()).await;
    if let Some(second) = Stack::second_emulator() {
        assert_a_deleted_file_has_no_older_version(second).await;
    }
}

#[tokio::test]
async fn without_a_bucket_the_error_names_provision() {
    let aws = Stack::shared().aws().await;
    let files = aws.files();
    let lines = [
        files.ready().await.unwrap_err(),
        // A missing bucket is not a missing file.
        files.open(&key("a")).await.err().unwrap(),
        begin(&aws, &key("a"), &noise(1, 10)).await.publish().await.unwrap_err(),
    ];
    for line in lines.map(|error| error.to_string()) {
        assert!(line.contains("`annalist provision`") && line.contains("ANNALIST_BUCKET"), "{line}");
        assert!(!line.contains('\n'));
    }
}

//! Compares the permissions with the calls in the source: none is missing, and none is superfluous.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use aws_resources::permissions::{self as may, Actions};
use ports::workers::{WORKERS, WorkerSpec};
use serde_json::Value;

use super::iam;
use crate::architecture::source::{SourceFile, source_files, workspace};

const AWS_SOURCES: [&str; 2] = ["shared/aws/src/", "shared/s3/src/"];

/// Actions that are granted together, and the files that need them.
const GRANTED: [(Actions, &[&str]); 13] = [
    (may::FIND_QUEUE, &["queue/queue_urls.rs"]),
    (may::SEND, &["queue/queue_urls.rs", "queue/send.rs"]),
    (may::CONSUME, &["queue/mod.rs", "queue/queue_urls.rs", "queue/receive.rs", "queue/settle.rs"]),
    (may::ROWS, &["archive/erase.rs", "archive/read.rs", "archive/write.rs"]),
    (may::DELETE_ROWS, &["archive/delete.rs"]),
    (may::EXISTENCE, &["existence.rs"]),
    (may::CLAIMS, &["claims.rs"]),
    (may::BULK, &["archive/bulk.rs"]),
    (may::FILES, &["files/reader.rs", "files/writer.rs"]),
    (may::ERASE, &["versions.rs"]),
    (may::BUCKET, &["files/mod.rs"]),
    (may::SECRET, &["secrets.rs"]),
    (may::PROVISION, &["provision/bucket.rs", "provision/queues.rs", "provision/tables.rs"]),
];

fn cargo(args: &[&str]) -> Vec<u8> {
    let manifest = workspace().join("Cargo.toml");
    let output =
        Command::new(env!("CARGO")).args(args).arg("--manifest-path").arg(manifest).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The target triple of this build.
fn host() -> String {
    let output = Command::new(env!("CARGO")).arg("-vV").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Every operation of the services, by the SDK's name: `send_message_batch` of `sqs`.
fn operations() -> BTreeMap<String, BTreeSet<&'static str>> {
    // Crates of other platforms may not be downloaded; those of this one are, since this was built from them.
    let platform = ["--filter-platform", &host()];
    let metadata = cargo(
        &[&["metadata", "--format-version", "1", "--offline", "--all-features"][..], &platform].concat(),
    );
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    let mut operations: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for service in ["dynamodb", "s3", "secretsmanager", "sqs"] {
        let package = metadata["packages"].as_array().unwrap().iter();
        let package = package.filter(|package| package["name"] == format!("aws-sdk-{service}"));
        let manifest = package.map(|package| package["manifest_path"].as_str().unwrap()).next().unwrap();
        let folder = Path::new(manifest).parent().unwrap().join("src/operation");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) = name.strip_suffix(".rs") {
                operations.entry(name.to_owned()).or_default().insert(service);
            }
        }
    }
    operations
}

/// The AWS operations that a file calls.
fn calls(
    file: &SourceFile,
    operations: &BTreeMap<String, BTreeSet<&'static str>>,
) -> BTreeSet<(&'static str, String)> {
    let code: String = file.code_without_tests().split_whitespace().collect();
    let called = operations.iter().filter(|(name, _)| code.contains(&format!(".{name}()")));
    called
        .map(|(name, services)| {
            let [service] = services.iter().copied().collect::<Vec<_>>()[..] else {
                panic!("{}: {name} is an operation of {services:?}", file.path)
            };
            (service, pascal(name))
        })
        .collect()
}

fn pascal(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(word).collect()
}

#[test]
fn every_call_is_permitted_and_every_permission_is_for_a_call() {
    let (operations, files) = (operations(), source_files());
    let made: BTreeMap<&str, BTreeSet<(&str, String)>> = files
        .iter()
        .filter_map(|file| {
            let path = AWS_SOURCES.iter().find_map(|source| file.path.strip_prefix(source))?;
            Some((path, calls(file, &operations)))
        })
        // A person copies an archive with credentials of their own, and a store without versions is not S3.
        .filter(|(path, calls)| *path != "objects.rs" && !calls.is_empty())
        .collect();
    for (actions, files) in GRANTED {
        let needed = files
            .iter()
            .flat_map(|file| made.get(file).unwrap_or_else(|| panic!("{file} no longer calls AWS")).iter());
        let needed: BTreeSet<String> =
            needed.flat_map(|(service, operation)| iam::actions(service, operation)).collect();
        let granted: BTreeSet<String> = actions.iter().map(|action| (*action).to_owned()).collect();
        assert_eq!(granted, needed, "for the calls of {files:?}");
        assert_eq!(granted.len(), actions.len(), "{actions:?} contains a duplicate");
    }
    let covered: BTreeSet<&str> = GRANTED.iter().flat_map(|(_, files)| files.iter().copied()).collect();
    assert_eq!(made.keys().copied().collect::<BTreeSet<_>>(), covered, "the files that call AWS");
}

#[test]
fn only_permitted_parts_query_the_index() {
    let may = |spec: &WorkerSpec| {
        let grants = aws_resources::permissions::PermittedPart::by_name(spec.name).unwrap().grants();
        grants.iter().any(|grant| grant.actions == may::INDEX)
    };
    let folders: Vec<String> = WORKERS
        .iter()
        .filter(|spec| may(spec))
        .map(|spec| format!("workers/src/{}/", spec.name.replace('-', "_")))
        .collect();
    assert!(folders.contains(&"workers/src/historian/".to_owned()), "it queries which threads are complete");
    let others = |file: &&SourceFile| {
        file.path.starts_with("workers/src/") && !folders.iter().any(|folder| file.path.starts_with(folder))
    };
    for file in source_files().iter().filter(others) {
        for name in ["Query::parent", "Partition::Parent"] {
            let uses = file.code_without_tests().contains(name);
            assert!(
                !uses,
                "{}: grant `INDEX` in shared/aws-resources/src/permissions.rs to the part that does this",
                file.path
            );
        }
    }
}

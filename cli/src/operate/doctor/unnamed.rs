//! Compares the file store with the rows: bytes that no row names are found by no reader, and an erasure does
//! not find them by a row.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ports::archive::Archive;
use ports::files::{FileKey, Files};
use workers::eraser::unnamed;

use super::check::DoctorCheck;
use crate::plain::counted;
use crate::read::human_size;

const STORE: &str = "store";

/// How long the files are compared: enough for tens of thousands of files in a folder or a bucket.
const COMPARE_FOR: Duration = Duration::from_secs(5);

/// The number of keys that a finding names.
const MAX_EXAMPLES: usize = 3;

/// The files that no row names, among those that were compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnnamedFiles {
    /// Their keys and lengths.
    found: BTreeMap<FileKey, u64>,
    /// The number of all compared files.
    compared: usize,
    /// Whether the store has more files.
    is_partial: bool,
}

/// Compares the files with the rows, for a limited time.
pub(super) async fn find(archive: &dyn Archive, files: &dyn Files) -> anyhow::Result<UnnamedFiles> {
    let begun = Instant::now();
    let (mut unnamed_files, mut after) = (UnnamedFiles::default(), None);
    loop {
        let page = files.list(after.as_ref()).await?;
        let Some(last) = page.last() else { break };
        if begun.elapsed() > COMPARE_FOR {
            unnamed_files.is_partial = true;
            break;
        }
        after = Some(last.key.clone());
        unnamed_files.compared += page.len();
        let found = unnamed(archive, page.iter().map(|file| file.key.clone())).await?;
        let found = page.into_iter().filter(|file| found.contains(&file.key));
        unnamed_files.found.extend(found.map(|file| (file.key, file.size_bytes)));
    }
    // Bytes are stored before their row, which may have come meanwhile.
    let still = unnamed(archive, unnamed_files.found.keys().cloned()).await?;
    unnamed_files.found.retain(|key, _| still.contains(key));
    Ok(unnamed_files)
}

pub(super) fn check(found: &Result<UnnamedFiles, String>, on_aws: bool) -> DoctorCheck {
    let unnamed_files = match found {
        Ok(unnamed_files) => unnamed_files,
        Err(why) => return DoctorCheck::skipped(STORE, why.as_str()),
    };
    let UnnamedFiles { found, compared, is_partial } = unnamed_files;
    let of = if *is_partial { "the first " } else { "" };
    let compared = counted(*compared as u64, "file", "files");
    if found.is_empty() {
        return DoctorCheck::ok(STORE, format!("of {of}{compared} in the file store, a row names each"));
    }
    let keys: Vec<&str> = found.keys().take(MAX_EXAMPLES).map(FileKey::as_str).collect();
    let and_more = if found.len() > keys.len() { ", …" } else { "" };
    let says = format!(
        "of {of}{compared} in the file store, no row names {} ({}): {}{and_more}",
        found.len(),
        human_size(found.values().sum()),
        keys.join(", ")
    );
    let next = if on_aws {
        "a restored table may be older than the bucket: delete these keys with all their versions from it, unless a job or a backup needs them"
    } else {
        "a restore or a copied folder left them: a backup leaves them out, and any `annalist erase` in their workspace removes them"
    };
    DoctorCheck::finding(STORE, says, next)
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;
    use rules::file::row::{self, StoredBytes};
    use slack::ids::{ChannelId, FileId, TeamId, Ts};
    use testkit::memory::archive::MemoryArchive;
    use testkit::memory::files::MemoryFiles;

    use super::super::check::{CheckState, assert_check};
    use super::*;

    fn team() -> TeamId {
        TeamId::parse("T1").unwrap()
    }

    fn key(number: usize) -> FileKey {
        let file = FileId::parse(&format!("F{number:05}")).unwrap();
        let ts = Ts::parse("1700000000.000100").unwrap();
        FileKey::shared(&team(), &ChannelId::parse("C1").unwrap(), &ts, &file)
    }

    #[tokio::test]
    async fn the_bytes_that_no_row_names_are_found_among_several_pages() {
        let (archive, files) = (MemoryArchive::new(), MemoryFiles::new());
        for number in 0..2_500 {
            let mut writer = files.create(&key(number)).await.unwrap();
            writer.write(vec![0; 10].into()).await.unwrap();
            writer.publish().await.unwrap();
            if number % 1_000 != 7 {
                let held =
                    StoredBytes { key: key(number), source: "s".into(), size_bytes: 10, sha256: "x".into() };
                let file = FileId::parse(&format!("F{number:05}")).unwrap();
                archive.write(&row::stored(&team(), &file, &held)).await.unwrap();
            }
        }
        let found = find(&archive, &files).await.unwrap();
        let expected = [7, 1_007, 2_007].map(|number| (key(number), 10));
        assert_eq!(found, UnnamedFiles { found: expected.into(), compared: 2_500, is_partial: false });
    }

    #[test]
    fn a_finding_names_some_keys_and_the_state_says_what_was_compared() {
        let of = |numbers: std::ops::Range<usize>, is_partial| {
            let found = numbers.map(|number| (key(number), 1_500_000)).collect();
            Ok(UnnamedFiles { found, compared: 5_000, is_partial })
        };
        assert_check(
            &check(&of(0..0, false), false),
            CheckState::Ok,
            "of 5,000 files in the file store, a row",
        );
        assert_check(&check(&of(0..0, true), false), CheckState::Ok, "of the first 5,000 files");
        let four = check(&of(0..4, true), false);
        assert_check(&four, CheckState::Finding, "any `annalist erase` in their workspace removes them");
        assert!(four.says.contains("no row names 4 (") && four.says.ends_with("F00002, …"), "{}", four.says);
        let two = check(&of(0..2, false), true);
        assert_check(&two, CheckState::Finding, "delete these keys");
        assert!(two.says.ends_with("F00001"), "{}", two.says);
        assert_check(&check(&Err("no answer".into()), false), CheckState::Skipped, "no answer");
    }
}

//! Counts the files that are still in the data folder, although new ones go to a bucket: they are read from there, and
//! fill its disk.

use std::time::{Duration, Instant};

use ports::files::{Files, FilesError};

use super::check::DoctorCheck;
use crate::plain::counted;
use crate::read::human_size;

const UNMOVED: &str = "unmoved";

/// How long the files are counted: enough for some hundred thousand files in a folder.
const COUNT_FOR: Duration = Duration::from_secs(5);

/// The files in the data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnmovedFiles {
    /// The bucket, as `--files` names it.
    place: String,
    files: u64,
    bytes: u64,
    /// Whether the folder has more files.
    is_partial: bool,
}

/// Counts the files in the data folder of an archive whose files are in a bucket, for a limited time.
pub(super) async fn count(folder: &dyn Files, place: String) -> Result<UnmovedFiles, FilesError> {
    let begun = Instant::now();
    let mut unmoved = UnmovedFiles { place, files: 0, bytes: 0, is_partial: false };
    let mut after = None;
    loop {
        let page = folder.list(after.as_ref()).await?;
        let Some(last) = page.last() else { return Ok(unmoved) };
        after = Some(last.key.clone());
        unmoved.files += page.len() as u64;
        unmoved.bytes += page.iter().map(|file| file.size_bytes).sum::<u64>();
        if begun.elapsed() > COUNT_FOR {
            unmoved.is_partial = true;
            return Ok(unmoved);
        }
    }
}

pub(super) fn check(found: &Result<UnmovedFiles, String>, backend_flag: &str) -> DoctorCheck {
    let UnmovedFiles { place, files, bytes, is_partial } = match found {
        Ok(unmoved) => unmoved,
        Err(why) => return DoctorCheck::skipped(UNMOVED, why.as_str()),
    };
    if *files == 0 {
        return DoctorCheck::ok(UNMOVED, format!("all files are in {place}"));
    }
    let at_least = if *is_partial { "at least " } else { "" };
    let says = format!(
        "{at_least}{} ({}) still in the data folder, and not in {place}",
        counted(*files, "file is", "files are"),
        human_size(*bytes)
    );
    let next =
        format!("`annalist files move {backend_flag} --files {place}` moves them, also while annalist runs");
    DoctorCheck::finding(UNMOVED, says, next)
}

#[cfg(test)]
mod tests {
    use ports::files::FileKey;
    use testkit::memory::files::MemoryFiles;

    use super::super::check::{CheckState, assert_check};
    use super::*;

    #[tokio::test]
    async fn the_files_in_the_folder_are_counted_over_all_pages() {
        let (folder, place) = (MemoryFiles::new(), "s3://b/kept".to_owned());
        for number in 0..1_203 {
            let key = format!("slack/T1/C1/1700000000.000100/F{number:05}");
            let mut writer = folder.create(&FileKey::parse(&key).unwrap()).await.unwrap();
            writer.write(vec![0; 10].into()).await.unwrap();
            writer.publish().await.unwrap();
        }
        let expected = UnmovedFiles { place: place.clone(), files: 1_203, bytes: 12_030, is_partial: false };
        assert_eq!(count(&folder, place).await.unwrap(), expected);
    }

    #[test]
    fn files_in_the_folder_are_a_finding_that_names_the_command() {
        let of = |files, is_partial| {
            Ok(UnmovedFiles { place: "s3://b/kept".to_owned(), files, bytes: files * 1_000_000, is_partial })
        };
        assert_check(&check(&of(0, false), "--data d"), CheckState::Ok, "all files are in s3://b/kept");
        let command = "`annalist files move --data d --files s3://b/kept`";
        assert_check(&check(&of(2, false), "--data d"), CheckState::Finding, command);
        assert_check(&check(&of(1, false), ""), CheckState::Finding, "1 file is");
        assert_check(&check(&of(9, true), ""), CheckState::Finding, "at least 9 files are");
        assert_check(&check(&Err("no answer".into()), ""), CheckState::Skipped, "no answer");
    }
}

//! Checks the machine's part of a data folder: disk space, permissions and the database.

use embedded::condition::{FolderCondition, Integrity};

use super::check::DoctorCheck;
use super::facts::{ArchiveFacts, Facts};

const DISK: &str = "disk";
const PERMISSIONS: &str = "permissions";
const DATABASE: &str = "database";

const GIB: u64 = 1024 * 1024 * 1024;

/// With less free space, a disk of any size is full soon.
const LEAST_FREE_BYTES: u64 = GIB;

/// With less than a twentieth free, a disk is full soon too, unless `ENOUGH_FREE_BYTES` are left: pictures
/// and videos come in gigabytes.
const FREE_PARTS: u64 = 20;
const ENOUGH_FREE_BYTES: u64 = 20 * GIB;

pub(super) fn checks(facts: &Facts) -> Vec<DoctorCheck> {
    let mut checks = match &facts.folder {
        Some(Ok(folder)) => vec![disk(*folder), permissions(*folder, &facts.backend_flag)],
        Some(Err(why)) => vec![DoctorCheck::skipped(DISK, why.as_str())],
        None => Vec::new(),
    };
    if let Ok(ArchiveFacts { integrity: Some(integrity), .. }) = &facts.archive {
        checks.push(database(integrity));
    }
    checks
}

fn disk(folder: FolderCondition) -> DoctorCheck {
    let FolderCondition { free_bytes, total_bytes, .. } = folder;
    let percent = u128::from(free_bytes) * 100 / u128::from(total_bytes.max(1));
    let says = format!("{} free, {percent} % of the filesystem", size(free_bytes));
    let little = free_bytes < total_bytes / FREE_PARTS && free_bytes < ENOUGH_FREE_BYTES;
    if free_bytes < LEAST_FREE_BYTES || little {
        let next = "make room, or move the data folder to a larger disk while annalist is stopped: on a full one no event \
                    is taken";
        return DoctorCheck::finding(DISK, says, next);
    }
    DoctorCheck::ok(DISK, says)
}

fn size(bytes: u64) -> String {
    if bytes >= GIB { format!("{} GiB", bytes / GIB) } else { format!("{} MiB", bytes / (1024 * 1024)) }
}

fn permissions(folder: FolderCondition, backend_flag: &str) -> DoctorCheck {
    let mode = folder.mode;
    if !folder.is_accessible_to_others() {
        return DoctorCheck::ok(
            PERMISSIONS,
            format!("only their owner may enter the data folder ({mode:04o})"),
        );
    }
    let path = backend_flag.strip_prefix("--data ").unwrap_or(backend_flag);
    DoctorCheck::finding(
        PERMISSIONS,
        format!("others on this machine may read the data folder ({mode:04o})"),
        format!("chmod 700 {path}"),
    )
}

fn database(integrity: &Result<Integrity, String>) -> DoctorCheck {
    match integrity {
        Ok(Integrity::Sound) => DoctorCheck::ok(DATABASE, "sound"),
        Ok(Integrity::Unfinished) => DoctorCheck::skipped(
            DATABASE,
            "too large to check now: `sqlite3 annalist.db 'PRAGMA quick_check'` checks all of it",
        ),
        Ok(Integrity::Damaged(complaint)) => DoctorCheck::finding(
            DATABASE,
            format!("damaged: {complaint}"),
            "stop annalist, copy the data folder away, and put the last good copy in its place; then look for the disk's fault",
        ),
        Ok(Integrity::Altered(name)) => DoctorCheck::finding(
            DATABASE,
            format!(
                "`{name}` is not as this version of annalist makes it: it may keep rows from being written or found"
            ),
            "drop it if you added it yourself; otherwise `annalist backup`, then `annalist restore` into a new folder, which takes \
             rows only",
        ),
        Err(why) => DoctorCheck::skipped(DATABASE, why.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckState, assert_check};
    use super::*;

    #[test]
    fn little_free_space_is_a_finding_on_small_and_large_disks() {
        let check_for =
            |free_bytes, total_bytes| disk(FolderCondition { free_bytes, total_bytes, mode: 0o700 });
        assert_check(&check_for(GIB, 8 * GIB), CheckState::Ok, "1 GiB free, 12 %");
        assert_check(&check_for(GIB - 1, 8 * GIB), CheckState::Finding, "1023 MiB free");
        assert_check(&check_for(5 * GIB, 100 * GIB), CheckState::Ok, "5 %");
        assert_check(&check_for(5 * GIB - 1, 100 * GIB), CheckState::Finding, "make room");
        assert_check(&check_for(40 * GIB, 4_000 * GIB), CheckState::Ok, "40 GiB free, 1 %");
        assert_check(&check_for(0, 0), CheckState::Finding, "0 MiB");
    }

    #[test]
    fn a_data_folder_that_others_can_read_is_a_finding() {
        let check_for =
            |mode| permissions(FolderCondition { free_bytes: 0, total_bytes: 0, mode }, "--data /d");
        assert_check(&check_for(0o700), CheckState::Ok, "0700");
        for mode in [0o755, 0o710, 0o704] {
            assert_check(&check_for(mode), CheckState::Finding, "chmod 700 /d");
        }
    }

    #[test]
    fn a_damaged_database_is_a_finding_and_a_large_one_is_not() {
        for (integrity, state, expected) in [
            (Ok(Integrity::Sound), CheckState::Ok, "sound"),
            (Ok(Integrity::Damaged("page 9".into())), CheckState::Finding, "page 9"),
            (Ok(Integrity::Altered("evil".into())), CheckState::Finding, "`evil` is not as"),
            (Ok(Integrity::Unfinished), CheckState::Skipped, "quick_check"),
            (Err("locked".to_owned()), CheckState::Skipped, "locked"),
        ] {
            assert_check(&database(&integrity), state, expected);
        }
    }
}

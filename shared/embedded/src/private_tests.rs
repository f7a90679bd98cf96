//! Permissions of files, and leftovers of acked jobs.

use std::time::{Duration, Instant};

use super::*;
use ports::clock::SystemClock;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName, ReceiveRequest};

const SECRET: &str = "said where nothing may be kept";
const DEADLINE: Duration = Duration::from_secs(30);

/// How often the secret occurs in a file of the folder.
fn found(data: &Path, name: &str) -> usize {
    let bytes = std::fs::read(data.join(name)).unwrap_or_default();
    bytes.windows(SECRET.len()).filter(|window| *window == SECRET.as_bytes()).count()
}

/// Sends, receives and acks jobs with short and long bodies.
async fn pass_through(database: &Database) {
    let queue = database.queue();
    let jobs = (0..20).map(|number| Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&["T1", "C1"]),
        dedup: DedupId::from_parts(&[format!("{number}").as_bytes()]),
        body: SECRET.repeat(if number % 2 == 0 { 1 } else { 2_000 }),
    });
    for sent in queue.send(jobs.collect()).await {
        sent.unwrap();
    }
    for _ in 0..20 {
        let request = ReceiveRequest {
            queue: QueueName::Events.into(),
            max: 1,
            visibility_timeout: Duration::from_secs(30),
            wait: Duration::from_secs(1),
        };
        let delivery = queue.receive(request).await.unwrap().remove(0);
        for acked in queue.ack(QueueName::Events.into(), &[delivery.receipt]).await {
            acked.unwrap();
        }
    }
}

#[tokio::test]
async fn acked_jobs_leave_no_content_in_the_folder_after_a_pause_and_after_closing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let database = Database::open(data, SystemClock::shared()).unwrap();
    pass_through(&database).await;
    let until = Instant::now() + DEADLINE;
    while found(data, "annalist.db-wal") > 0 {
        assert!(Instant::now() < until, "the log still has it");
        tokio::task::yield_now().await;
    }
    assert_eq!(found(data, DATABASE_FILE), 0);
    pass_through_and_close(data, database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_consumers_do_not_keep_acked_jobs_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
    pass_through(&database).await;
    let (queue, queue_name) = (database.queue(), QueueName::Events.into());
    let (visibility_timeout, wait) = (Duration::from_secs(30), Duration::ZERO);
    let request = ReceiveRequest { queue: queue_name, max: 1, visibility_timeout, wait };
    let consumer = tokio::spawn(async move {
        loop {
            assert_eq!(queue.receive(request).await.unwrap(), []);
        }
    });
    let until = Instant::now() + DEADLINE;
    while found(folder.path(), "annalist.db-wal") > 0 {
        assert!(Instant::now() < until && !consumer.is_finished(), "the log still has it");
    }
    consumer.abort();
    database.close().await;
}

async fn pass_through_and_close(data: &Path, database: Database) {
    database.close().await;
    let again = Database::open(data, SystemClock::shared()).unwrap();
    again.close().await;
    assert_eq!((found(data, DATABASE_FILE), found(data, "annalist.db-wal")), (0, 0));
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_access_files_in_a_folder_that_others_may_enter() {
    use std::os::unix::fs::PermissionsExt;

    fn walk(folder: &Path, seen: &mut usize) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
            *seen += 1;
            if path.is_dir() {
                walk(&path, seen);
            }
        }
    }

    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
    database.files().ready().await.unwrap();
    let mut seen = 0;
    walk(folder.path(), &mut seen);
    assert!(seen >= 5, "{seen}");
    database.close().await;
}

#[test]
fn the_error_of_an_unusable_folder_says_what_to_do_next() {
    let message = |data: &Path| Database::open(data, SystemClock::shared()).err().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no database").unwrap();
    assert!(message(&file).ends_with("; name another folder with --data"), "{}", message(&file));

    std::fs::rename(&file, folder.path().join(DATABASE_FILE)).unwrap();
    let unreadable = message(folder.path());
    let expected =
        "file is not a database; name another folder with --data, or restore a backup into a new one";
    assert!(unreadable.ends_with(expected), "{unreadable}");

    let full = OpenError::Folder { path: file, source: ErrorKind::StorageFull.into() };
    assert!(full.to_string().ends_with("; make room on its disk"), "{full}");
}

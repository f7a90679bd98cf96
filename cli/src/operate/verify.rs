//! `annalist verify`: checks that the archive is whole, without changing it.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use embedded::Database;
use embedded::condition::Integrity;
use ports::archive::erasure::{ErasureFacts, ExpiryFact, HoldFact};
use ports::archive::{Archive, Item, ItemKey, Query, key, query_all, rows};
use ports::files::Files;
use process::config::backend::{Backend, BackendArgs};
use process::config::copy::{COPY_TARGET, CopyTarget};
use reader::find;
use rules::file::row::ExpectedBytes;
use rules::{project, version};
use serde_json::json;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use super::backup::embedded_folder;
use super::copy::CopyCheck;
use super::named_files::named_bytes;
use crate::plain;
use crate::read::human_size;

/// Rows read at once.
const PAGE: usize = 1_000;

/// The database is checked whole, however long it takes: this is far more than any disk needs.
const INTEGRITY_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// `annalist verify`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Leave the bytes of files out
    #[arg(long)]
    no_files: bool,
    /// Check the copies in this folder or bucket too
    #[arg(long, value_name = COPY_TARGET)]
    copy: Option<CopyTarget>,
    /// One JSON object per line: each problem, and last the counts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Checks the database, its rows and its files, and prints each problem.
pub(crate) async fn run(backend: &Backend, args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    embedded_folder(&args.backend, "verify")?;
    let Some(database) = backend.database() else { bail!("the data folder is not open") };
    let (archive, files) = (backend.archive(), backend.files());
    let mut verification = Verification {
        archive: &*archive,
        files: (!args.no_files).then_some(&*files),
        covered: ErasureFacts::default(),
        counts: VerifiedCounts::default(),
        json: args.json,
        out,
    };
    verification.database(database).await?;
    verification.read_facts().await?;
    verification.rows(database).await?;
    if let Some(target) = &args.copy {
        let archive_id = &database.archive_id().await?;
        let check = CopyCheck {
            store: &*target.store().await,
            archive: &*archive,
            archive_id,
            // With a bucket, the copies have no files.
            has_files: !args.no_files && args.backend.files_in.is_none(),
        };
        let checked = check.run(&mut |what, detail| verification.problem("copy", what, detail)).await;
        checked.with_context(|| format!("cannot check the copies in {target}"))?;
    }
    let VerifiedCounts { rows, messages, files, bytes, problems } = verification.counts;
    if args.json {
        let line = json!({ "rows": rows, "messages": messages, "files": files, "bytes": bytes, "problems": problems });
        plain::json_line(out, &line)?;
    } else {
        writeln!(
            out,
            "Checked {}, {} and {} ({}).",
            plain::counted(rows, "row", "rows"),
            plain::counted(messages, "message", "messages"),
            plain::counted(files, "file", "files"),
            human_size(bytes)
        )?;
    }
    if problems > 0 {
        // The error must be the last line.
        out.flush()?;
        bail!(
            "{}: restore a backup from before, or fetch what is missing with annalist files retry",
            plain::counted(problems, "problem", "problems")
        );
    }
    Ok(())
}

#[derive(Debug, Default, Clone, Copy)]
struct VerifiedCounts {
    rows: u64,
    messages: u64,
    files: u64,
    bytes: u64,
    problems: u64,
}

struct Verification<'v> {
    archive: &'v dyn Archive,
    /// `None` if the bytes of files are left out.
    files: Option<&'v dyn Files>,
    /// What was removed by now.
    covered: ErasureFacts,
    counts: VerifiedCounts,
    json: bool,
    out: &'v mut dyn Write,
}

impl Verification<'_> {
    async fn database(&mut self, database: &Database) -> anyhow::Result<()> {
        match database.integrity(INTEGRITY_LIMIT).await {
            Ok(Integrity::Sound | Integrity::Unfinished) => Ok(()),
            Ok(Integrity::Damaged(error)) | Err(error) => self.problem("database", "annalist.db", &error),
            Ok(Integrity::Altered(object)) => {
                let detail = format!("{object} is not as this version of Annalist makes it");
                self.problem("database", "annalist.db", &detail)
            }
        }
    }

    /// Reads what must be gone: erased content, and what retention says it has removed. What expired since, and what
    /// a released hold kept, goes in the next night.
    async fn read_facts(&mut self) -> anyhow::Result<()> {
        for team in find::teams(self.archive).await? {
            for row in query_all(self.archive, Query::partition(key::erasures(&team))).await? {
                if let Some(fact) = ExpiryFact::read(&row) {
                    let until = fact.done.clone().unwrap_or_else(version::zero);
                    self.covered.insert_expiry(&ExpiryFact { until, ..fact });
                } else if let Some(hold) = HoldFact::read(&row).filter(|hold| !hold.is_swept) {
                    self.covered.insert_hold(HoldFact { release: None, ..hold });
                } else {
                    self.covered.insert_row(&row);
                }
            }
        }
        Ok(())
    }

    /// Checks every row, in the order of their keys.
    async fn rows(&mut self, database: &Database) -> anyhow::Result<()> {
        let mut after: Option<ItemKey> = None;
        loop {
            let scanned = match database.scan(after.clone(), PAGE).await {
                Ok(scanned) => scanned,
                Err(error) => {
                    let from = after.map_or_else(|| "the first row".to_owned(), |key| shown(&key));
                    return self.problem("database", &format!("the rows after {from}"), &error);
                }
            };
            let Some(last) = scanned.last() else { return Ok(()) };
            after = Some(last.key.clone());
            for row in scanned {
                self.counts.rows += 1;
                match row.item {
                    Ok(item) => self.row(&item).await?,
                    Err(error) => self.problem("row", &shown(&row.key), &error)?,
                }
            }
        }
    }

    async fn row(&mut self, item: &Item) -> anyhow::Result<()> {
        if item.key.item_id.starts_with(rows::MESSAGE.prefix()) && project::message(item).is_some() {
            self.counts.messages += 1;
        }
        if self.covered.covers_row(item) {
            // An erasure may be in progress: what it has removed since is no problem.
            let now = self.archive.get(&item.key).await?;
            if now.is_some_and(|now| self.covered.covers_row(&now)) {
                let cover = format!("{:?}", self.covered.cover_row(item)).to_lowercase();
                self.problem(
                    "not_erased",
                    &shown(&item.key),
                    &format!("the row is {cover}, and still has content"),
                )?;
            }
        }
        if self.files.is_some() {
            for expected in named_bytes(item) {
                self.bytes(item, &expected).await?;
            }
        }
        Ok(())
    }

    /// Checks the bytes under a key.
    async fn bytes(&mut self, row: &Item, expected: &ExpectedBytes<'_>) -> anyhow::Result<()> {
        let Some(files) = self.files else { return Ok(()) };
        let what = expected.key.as_str();
        let Some(mut reader) = files.open(&expected.key).await? else {
            // It may have been removed since the row was read.
            let is_unchanged = self.archive.get(&row.key).await?.as_ref() == Some(row);
            return if is_unchanged { self.problem("missing_file", what, &shown(&row.key)) } else { Ok(()) };
        };
        self.counts.files += 1;
        self.counts.bytes += reader.size_bytes();
        if let Some(size_bytes) = expected.size_bytes.filter(|size_bytes| *size_bytes != reader.size_bytes())
        {
            let detail = format!("it has {} bytes instead of {size_bytes}", reader.size_bytes());
            return self.problem("damaged_file", what, &detail);
        }
        let Some(sha256) = expected.sha256 else { return Ok(()) };
        let mut hasher = Sha256::new();
        while let Some(chunk) = reader.next().await? {
            hasher.update(&chunk);
        }
        let found = to_hex(&hasher.finalize());
        if found == sha256 {
            return Ok(());
        }
        self.problem("damaged_file", what, &format!("its SHA-256 is {found} instead of {sha256}"))
    }

    fn problem(&mut self, problem: &str, what: &str, detail: &str) -> anyhow::Result<()> {
        self.counts.problems += 1;
        if self.json {
            let line = json!({ "problem": problem, "what": what, "detail": detail });
            return Ok(plain::json_line(self.out, &line)?);
        }
        let (what, detail) = (plain::excerpt(what, 300), plain::excerpt(detail, 300));
        Ok(writeln!(self.out, "{}: {what}: {detail}", problem.replace('_', " "))?)
    }
}

fn shown(key: &ItemKey) -> String {
    format!("{} / {}", key.item_id, key.timestamp)
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;

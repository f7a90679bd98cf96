//! The search of a site, which needs no server: Pagefind indexes the pages in parts. A part is small enough for
//! Pagefind's memory, and is made again only if one of its pages changed.
//! <https://pagefind.app>

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, io};

use process::config::program_folders;
use process::config::publish::{PublicSearch, PublicSiteArgs};
use rules::publishing::{UNDATED, day};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::Ts;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::timeout;
use viewer::public_links::SEARCH;

use super::PublishError;
use super::run::PublishRun;
use super::state::{STATE_FOLDER, SiteUnit};
use super::write::{DoneUnit, SiteFile};

/// Messages of a part. Pagefind needs about a second and 60 MiB for each thousand pages of threads.
const MAX_PART_MESSAGES: u64 = 50_000;

/// The limit for a part, which normally takes less than a minute.
const MAX_PART_TIME: Duration = Duration::from_mins(10);

/// The limit for the version, which takes no time.
const MAX_VERSION_TIME: Duration = Duration::from_secs(30);

const PROGRAM: &str = "pagefind";

/// What Pagefind reads of a page: its messages, without what is no text of theirs.
const READ: [&str; 4] = [
    "--root-selector",
    "main",
    "--exclude-selectors",
    ".channel-head, .way, .day > h2, .timeline-inner > h2, .avatar, .time, .edited, .reactions, .thread",
];

/// Changes with what Pagefind reads, or with what is kept of its files: each part is then made again.
const PART_VERSION: u32 = 1;

/// The folder within the state in which Pagefind works.
const STAGE_FOLDER: &str = "stage";

/// The file of a part that names the others, and is written after them.
const ENTRY: &str = "pagefind-entry.json";

/// The length of a month's name, and of a year's.
const MONTH_LENGTH: usize = 7;
const YEAR_LENGTH: usize = 4;

/// Characters of a failure that are shown.
const MAX_REASON_CHARS: usize = 200;

/// The installed Pagefind.
#[derive(Debug, Clone)]
pub(super) struct SearchProgram {
    path: PathBuf,
    pub(super) version: String,
}

/// What a run did for the search.
#[derive(Debug, Default)]
pub(super) struct SearchParts {
    /// The parts of the site, newest first.
    pub(super) names: Vec<String>,
    pub(super) has_changed: bool,
    /// Why there is a part less than there should be.
    pub(super) failure: Option<String>,
}

/// Finds Pagefind, if the site shall have a search.
pub(super) async fn find(args: &PublicSiteArgs) -> Result<Option<SearchProgram>, PublishError> {
    let found = match (&args.pagefind, args.search) {
        (_, PublicSearch::Off) => return Ok(None),
        (Some(path), _) => with_version(fs::canonicalize(path).unwrap_or_else(|_| path.clone())).await,
        (None, _) => match in_path(program_folders().as_deref()) {
            Some(path) => with_version(path).await,
            None => None,
        },
    };
    match (found, args.search) {
        (None, PublicSearch::On) => Err(PublishError::NoSearchProgram),
        (found, _) => Ok(found),
    }
}

/// A relative folder of `PATH` is whatever folder the run is in, so it is left out.
fn in_path(path: Option<&OsStr>) -> Option<PathBuf> {
    let name = format!("{PROGRAM}{}", env::consts::EXE_SUFFIX);
    env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&name))
        .find(|file| file.is_file())
}

async fn with_version(path: PathBuf) -> Option<SearchProgram> {
    let mut command = command(&path);
    command.arg("--version").stdout(Stdio::piped());
    let output = timeout(MAX_VERSION_TIME, command.output()).await.ok()?.ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !version.is_empty()).then_some(SearchProgram { path, version })
}

/// A command that is ended with the run. It gets no secret: of the environment only `PATH`, with which an
/// installation by npm finds its interpreter.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    if let Some(path) = program_folders() {
        command.env("PATH", path);
    }
    command
}

/// How the making of a part ended.
enum PartOutcome {
    Done,
    Failed(String),
    /// The run must end.
    Interrupted,
}

/// The pages of a part: their paths and hashes.
type PartPages = Vec<(String, String)>;

impl PublishRun<'_> {
    /// Brings the search up to date. Returns `None` if the run must end before.
    pub(super) async fn search_parts(
        &mut self,
        shutdown: &watch::Receiver<bool>,
    ) -> Result<Option<SearchParts>, PublishError> {
        let program = self.settings.search_program.clone();
        let names = if program.is_some() { self.part_names()? } else { Vec::new() };
        let mut parts = SearchParts::default();
        let stored = "SELECT DISTINCT month FROM page WHERE channel = '' AND month LIKE 'search/%'";
        for folder in self.state.texts(stored, &[])? {
            if !names.iter().any(|name| part_folder(name) == folder) {
                self.remove_part(&folder)?;
                parts.has_changed = true;
            }
        }
        for name in names {
            let (Some(program), pages) = (&program, self.pages_of(&name)?) else { break };
            let folder = part_folder(&name);
            let fingerprint = fingerprint(program, &pages);
            if self.state.meta(&folder)?.as_ref() == Some(&fingerprint) {
                parts.names.push(name);
                continue;
            }
            parts.has_changed = true;
            let Some(site) = self.writer.folder().map(Path::to_owned) else {
                // Which files Pagefind makes is known once it has read the pages.
                self.writer.counts.written.insert(format!("{folder}/"));
                parts.names.push(name);
                continue;
            };
            match make(&site, program, &pages, shutdown).await? {
                PartOutcome::Done => {
                    self.keep_part(&site, &folder, &fingerprint)?;
                    parts.names.push(name);
                }
                PartOutcome::Failed(reason) => {
                    self.remove_part(&folder)?;
                    parts.failure.get_or_insert(format!("{name}: {reason}"));
                }
                PartOutcome::Interrupted => return Ok(None),
            }
            remove_folder(&stage_of(&site))?;
        }
        Ok(Some(parts))
    }

    /// The parts of the site, newest first.
    fn part_names(&self) -> Result<Vec<String>, PublishError> {
        // The root of a thread is in its channel, and its replies are on its page.
        let mut statement = self.state.db().prepare(
            "SELECT month, sum(number) FROM (SELECT month, messages AS number FROM unit WHERE month <> '' \
            UNION ALL SELECT month, (SELECT count(*) FROM reply WHERE reply.channel = page.channel \
            AND reply.root_ts = page.root_ts) FROM page WHERE root_ts IS NOT NULL) GROUP BY month HAVING sum(number) > 0",
        )?;
        let months =
            statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
        let months: BTreeMap<String, u64> = months.collect::<rusqlite::Result<_>>()?;
        let mut names = Vec::new();
        for part in part_sizes(&months) {
            match part {
                PartSize::Whole(name) => names.push(name),
                PartSize::Days(month) => {
                    let days: BTreeSet<String> =
                        self.pages_in(&month)?.into_iter().map(|page| page.2).collect();
                    names.extend(days);
                }
            }
        }
        names.sort_by(|one, other| (one == UNDATED, other).cmp(&(other == UNDATED, one)));
        Ok(names)
    }

    fn pages_of(&self, part: &str) -> Result<PartPages, PublishError> {
        let is_day = part.len() > MONTH_LENGTH;
        let pages = self.pages_in(part.get(..MONTH_LENGTH).unwrap_or(part))?;
        let pages = pages.into_iter().filter(|(_, _, day)| !is_day || day == part);
        Ok(pages.map(|(path, hash, _)| (path, hash)).collect())
    }

    /// The pages of messages and threads of a year or a month, with their hashes and days.
    fn pages_in(&self, period: &str) -> Result<Vec<(String, String, String)>, PublishError> {
        let mut statement = self.state.db().prepare_cached(
            "SELECT path, hash, first_ts FROM unit CROSS JOIN page ON page.channel = unit.channel \
            AND page.month = unit.month WHERE substr(unit.month, 1, length(?1)) = ?1 AND hash IS NOT NULL \
            AND (first_ts IS NOT NULL OR path LIKE 'c/%/%/%') ORDER BY path",
        )?;
        let pages = statement.query_map([period], |row| {
            let (path, first_ts): (String, Option<String>) = (row.get(0)?, row.get(2)?);
            let first_ts = first_ts.or_else(|| root_of(&path)).and_then(|ts| Ts::parse(&ts).ok());
            Ok((path, row.get(1)?, first_ts.map_or_else(|| UNDATED.to_owned(), |ts| day(&ts))))
        })?;
        Ok(pages.collect::<rusqlite::Result<_>>()?)
    }

    /// Puts the files that Pagefind made on the site.
    fn keep_part(&mut self, site: &Path, folder: &str, fingerprint: &str) -> Result<(), PublishError> {
        let unit = SiteUnit { channel: String::new(), month: folder.to_owned() };
        let made = stage_of(site).join("out");
        let mut files = Vec::new();
        list(&made, &made, &mut files)?;
        files.sort_by(|one, other| (one == ENTRY, one).cmp(&(other == ENTRY, other)));
        let mut paths = BTreeSet::new();
        for name in files.iter().filter(|name| is_needed(name)) {
            if name == ENTRY {
                self.writer.flush(&mut self.state)?;
            }
            let path = format!("{folder}/{name}");
            let content = fs::read(made.join(name))?;
            paths.insert(path.clone());
            self.writer.put(&mut self.state, &unit, SiteFile { path, content, ..SiteFile::default() })?;
        }
        self.writer.finish(&mut self.state, DoneUnit { unit, paths, ..DoneUnit::default() })?;
        self.writer.flush(&mut self.state)?;
        self.state.set_meta(folder, fingerprint)
    }

    fn remove_part(&mut self, folder: &str) -> Result<(), PublishError> {
        let paths = self.state.paths(&SiteUnit { channel: String::new(), month: folder.to_owned() })?;
        self.writer.delete(&mut self.state, &paths.into_iter().collect::<Vec<_>>())?;
        self.state.set_meta(folder, "")
    }
}

/// The months that a part has.
#[derive(Debug, PartialEq, Eq)]
enum PartSize {
    /// A year or a month.
    Whole(String),
    /// A part for each day of this month.
    Days(String),
}

/// Cuts the months, which are given with their numbers of messages, into parts.
fn part_sizes(months: &BTreeMap<String, u64>) -> Vec<PartSize> {
    let year =
        |month: &str| month.get(..YEAR_LENGTH).filter(|_| month != UNDATED).unwrap_or(month).to_owned();
    let mut years: BTreeMap<String, u64> = BTreeMap::new();
    for (month, messages) in months {
        *years.entry(year(month)).or_default() += messages;
    }
    let mut parts = Vec::new();
    for (name, messages) in years {
        if messages <= MAX_PART_MESSAGES {
            parts.push(PartSize::Whole(name));
            continue;
        }
        for (month, messages) in months.iter().filter(|(month, _)| year(month) == name) {
            let is_whole = *messages <= MAX_PART_MESSAGES || month == UNDATED;
            parts.push(if is_whole { PartSize::Whole(month.clone()) } else { PartSize::Days(month.clone()) });
        }
    }
    parts
}

/// The root of the thread that a page shows.
fn root_of(path: &str) -> Option<String> {
    let digits = path.rsplit('/').next()?.split(['-', '.']).next()?;
    let (seconds, fraction) = digits.split_at_checked(digits.len().checked_sub(6)?)?;
    Some(format!("{seconds}.{fraction}"))
}

/// Whether the search of the site needs this file of Pagefind's. The others are for pages that others make.
fn is_needed(name: &str) -> bool {
    ["index/", "fragment/", "wasm."].iter().any(|start| name.starts_with(start))
        || ["pagefind.js", "pagefind-worker.js", ENTRY].contains(&name)
        || name.ends_with(".pf_meta")
}

/// The folder of a part on the site.
fn part_folder(name: &str) -> String {
    format!("{SEARCH}/{name}")
}

fn stage_of(site: &Path) -> PathBuf {
    site.join(STATE_FOLDER).join(STAGE_FOLDER)
}

/// What a part was made from.
fn fingerprint(program: &SearchProgram, pages: &PartPages) -> String {
    let mut hash = Sha256::new();
    for (path, content) in pages {
        hash.update(format!("{path} {content}\n"));
    }
    format!("{PART_VERSION} {} {}", program.version, to_hex(&hash.finalize()))
}

/// Lets Pagefind index pages. Its files are in the stage then.
async fn make(
    site: &Path,
    program: &SearchProgram,
    pages: &PartPages,
    shutdown: &watch::Receiver<bool>,
) -> Result<PartOutcome, PublishError> {
    let stage = stage_of(site);
    remove_folder(&stage)?;
    for (path, _) in pages {
        let (page, staged) = (site.join(path), stage.join("site").join(path));
        if let Some(folder) = staged.parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::hard_link(&page, &staged).is_err() {
            fs::copy(&page, &staged)?;
        }
    }
    let mut command = command(&program.path);
    command.args(["--site", "site", "--output-path", "out"]).args(READ);
    command.current_dir(&stage).stderr(Stdio::piped());
    let mut shutdown = shutdown.clone();
    let ended = tokio::select! {
        ended = timeout(MAX_PART_TIME, command.output()) => ended,
        _ = shutdown.wait_for(|is_ending| *is_ending) => return Ok(PartOutcome::Interrupted),
    };
    let reason = match ended {
        Ok(Ok(output)) if output.status.success() && stage.join("out").join(ENTRY).is_file() => {
            return Ok(PartOutcome::Done);
        }
        Ok(Ok(output)) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            line.map_or_else(
                || output.status.to_string(),
                |line| line.chars().take(MAX_REASON_CHARS).collect(),
            )
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it took more than {} minutes", MAX_PART_TIME.as_secs() / 60),
    };
    Ok(PartOutcome::Failed(reason))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lists the files of a folder, with their paths from its root.
fn list(root: &Path, folder: &Path, found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(root, &entry.path(), found)?;
        } else if let Ok(path) = entry.path().strip_prefix(root) {
            found.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_year_a_month_or_a_day_by_its_messages() {
        let months = [
            ("2024-01", 25_000),
            ("2024-12", 25_000),
            ("2025-01", 50_000),
            ("2025-02", 1),
            ("2026-11", 50_001),
            ("undated", 60_000),
        ];
        let months = months.map(|(month, messages)| (month.to_owned(), messages)).into_iter().collect();
        let whole = |name: &str| PartSize::Whole(name.to_owned());
        let expected = [
            whole("2024"),
            whole("2025-01"),
            whole("2025-02"),
            PartSize::Days("2026-11".into()),
            whole("undated"),
        ];
        assert_eq!(part_sizes(&months), expected);
    }

    #[test]
    fn pages_of_a_thread_are_in_the_part_of_its_root() {
        for path in ["c/a/2026-11/1795132800000100.html", "c/a/2026-11/1795132800000100-2.html"] {
            assert_eq!(root_of(path).as_deref(), Some("1795132800.000100"), "{path}");
        }
        assert_eq!(root_of("c/a/undated/1.html"), None);
    }

    #[test]
    fn the_program_is_not_taken_from_the_folder_that_the_run_is_in() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX)), "").unwrap();
        let path = env::join_paths([Path::new("."), Path::new("relative"), folder.path()]).unwrap();
        assert!(in_path(Some(&path)).unwrap().starts_with(folder.path()));
        assert_eq!(in_path(Some(OsStr::new("."))), None);
    }
}

//! The list of erasures next to the database: `erasures.jsonl` in the data folder. A backup from before an
//! erasure restores the erased content; this list says what to erase again. It contains ids and times, but no
//! content.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use ports::archive::erasure::{ErasureFact, ErasureScope};
use process::config::backend::{BackendArgs, BackendKind};
use process::config::named_file::read_text;
use serde::{Deserialize, Serialize};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

/// Maximum size of a list: half a million erasures.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// The file's name in the data folder.
pub(crate) const FILE: &str = "erasures.jsonl";

/// The list of a data folder. AWS needs no list: a restored table is a new table, and the old one still has
/// the facts.
pub(super) struct RecordedErasures(PathBuf);

#[derive(Serialize, Deserialize)]
struct RecordedErasure {
    team: TeamId,
    scope: String,
    until: Ts,
}

impl RecordedErasures {
    /// Returns the list of an archive; `None` on AWS.
    pub(super) fn for_backend(backend: &BackendArgs) -> Option<Self> {
        match backend.backend {
            BackendKind::Embedded => Some(Self(backend.data.data.join(FILE))),
            BackendKind::Aws => None,
        }
    }

    /// Appends facts that were written to the archive.
    pub(super) fn add(&self, facts: &[ErasureFact]) -> anyhow::Result<()> {
        let failed = || format!("cannot write the list of erasures, {}", self.0.display());
        // A previous write may have been cut off: start a new line after it.
        let is_cut = last_byte(&self.0).is_ok_and(|last| last != b'\n');
        let mut lines = if is_cut { "\n".to_owned() } else { String::new() };
        for ErasureFact { team, scope, until } in facts.iter().cloned() {
            let erasure = RecordedErasure { team, scope: label(&scope), until };
            lines += &serde_json::to_string(&erasure)?;
            lines.push('\n');
        }
        let mut options = disk::private_file_options();
        let mut file = options.append(true).create(true).open(&self.0).with_context(failed)?;
        file.write_all(lines.as_bytes()).and_then(|()| file.sync_all()).with_context(failed)
    }

    /// Returns the facts in the list.
    pub(super) fn read(&self) -> anyhow::Result<ListedErasures> {
        match fs::metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ListedErasures {
                problem: Some(format!(
                    "there is no list {}: copy it from the folder that was in use before, or name it with --replay FILE",
                    self.0.display()
                )),
                ..ListedErasures::default()
            }),
            Ok(_) | Err(_) => read(&self.0),
        }
    }
}

/// What a list contains.
#[derive(Debug, Default)]
pub(super) struct ListedErasures {
    pub(super) facts: Vec<ErasureFact>,
    /// Why not everything that was erased may be in `facts`, and what to do.
    pub(super) problem: Option<String>,
}

fn last_byte(file: &Path) -> io::Result<u8> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last).map(|()| last[0])
}

/// Returns the facts in the list of another data folder.
pub(super) fn read(file: &Path) -> anyhow::Result<ListedErasures> {
    let text =
        read_text(file, MAX_LIST_BYTES).map_err(|why| anyhow!("cannot read {}: {why}", file.display()))?;
    let mut facts = Vec::new();
    let mut unreadable = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        match fact(line) {
            Some(fact) => facts.push(fact),
            // A full disk cuts a line, and the next erasure begins a new one.
            None => unreadable.push((number + 1).to_string()),
        }
    }
    let problem = (!unreadable.is_empty()).then(|| {
        let lines = if unreadable.len() == 1 { "line" } else { "lines" };
        format!(
            "{}, {lines} {}: this is no erasure; all others are erased again. Erase by hand what it was about, or take a whole copy of the list",
            file.display(),
            unreadable.join(", ")
        )
    });
    Ok(ListedErasures { facts, problem })
}

/// Returns the name of a scope in facts and records.
pub(super) fn label(scope: &ErasureScope) -> String {
    match scope {
        ErasureScope::User(user) => format!("user#{user}"),
        ErasureScope::Channel(channel) => format!("channel#{channel}"),
        ErasureScope::Message(channel, ts) => format!("message#{channel}#{ts}"),
    }
}

/// Parses the name of a scope.
fn scope(label: &str) -> Option<ErasureScope> {
    let (kind, id) = label.split_once('#')?;
    match kind {
        "user" => Some(ErasureScope::User(UserId::parse(id).ok()?)),
        "channel" => Some(ErasureScope::Channel(ChannelId::parse(id).ok()?)),
        "message" => {
            let (channel, ts) = id.split_once('#')?;
            Some(ErasureScope::Message(ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?))
        }
        _ => None,
    }
}

fn fact(line: &str) -> Option<ErasureFact> {
    let RecordedErasure { team, scope, until } = serde_json::from_str(line).ok()?;
    Some(ErasureFact { team, scope: self::scope(&scope)?, until })
}

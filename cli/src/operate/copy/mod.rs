//! `annalist copy`: copies the database to another disk or store, and writes only what changed.
//!
//! * [`make`]: makes a copy, and [`files`] copies the bytes of files; [`night`] does so every night.
//! * [`restore`]: a data folder from a copy; [`check`]: whether the copies are whole.
//! * [`state`]: the row that says how the last copy went.

mod check;
mod files;
mod make;
mod night;
mod restore;
pub(crate) mod state;

use std::io::Write;

use anyhow::{Context, bail};
use copies::{Base, CopyStore, list_bases, owner};
use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs};
use process::config::copy::{CopyNowArgs, CopyTarget};
use serde_json::json;

use super::backup::embedded_folder;
use crate::failure::UsageError;
use crate::plain;
use crate::read::human_size;

pub(crate) use check::CopyCheck;
pub(crate) use make::Copier;
pub(crate) use night::NightlyCopy;
pub(crate) use restore::restore;

/// `annalist copy`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CopyCommandArgs {
    #[command(flatten)]
    target: CopyNowArgs,
    /// Show the copies, oldest first
    #[arg(long)]
    list: bool,
    /// One JSON object; with --list one per copy
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

impl CopyCommandArgs {
    /// Refuses AWS, and a copy within the data folder.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let data = embedded_folder(&self.backend, "copy")?;
        Ok(self.target.to.as_ref().map_or(Ok(()), |target| check_place(target, data))?)
    }
}

/// Makes a copy, or lists them.
pub(crate) async fn run(
    backend: &Backend,
    args: &CopyCommandArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    args.check()?;
    let data = &args.backend.data.data;
    let Some(target) = args.target.to.clone() else {
        bail!("a copy needs a target: --to DIR or --to s3://BUCKET")
    };
    let Some(database) = backend.database() else { bail!("the data folder is not open") };
    if args.list {
        return list(&*target.store().await, &target, args.json, out).await;
    }
    let copier = Copier {
        data: data.to_owned(),
        database: database.clone(),
        archive: backend.archive(),
        clock: SystemClock::shared(),
        keep: args.target.copy_keep,
        target,
    };
    let made = copier.copy().await?;
    if args.json {
        return Ok(plain::json_line(out, &made)?);
    }
    writeln!(
        out,
        "Copied to {} as {}: {} in {}, of which {} new ({}); {} copied.",
        plain::line(&made.target),
        made.at,
        plain::counted(made.rows, "row", "rows"),
        plain::counted(made.blocks, "block", "blocks"),
        if made.new_blocks == 1 {
            "1 is".to_owned()
        } else {
            format!("{} are", plain::grouped(made.new_blocks))
        },
        human_size(made.bytes_written),
        plain::counted(made.files_copied, "file", "files"),
    )?;
    writeln!(out, "To restore it: annalist restore {} --data NEW-FOLDER", plain::line(&made.target))?;
    Ok(())
}

/// Refuses a copy within the data folder.
pub(crate) fn check_place(target: &CopyTarget, data: &std::path::Path) -> Result<(), UsageError> {
    if target.is_within(data) {
        let data = data.display();
        return Err(UsageError::new(format!(
            "{target} is in the data folder {data}, so that a lost disk would take both: name a folder of another disk"
        )));
    }
    Ok(())
}

async fn list(
    store: &dyn CopyStore,
    target: &CopyTarget,
    is_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let context = || format!("cannot list the copies in {target}");
    store.ready().await.map_err(copies::CopyError::from).with_context(context)?;
    // A newer format has other bases.
    owner(store).await.with_context(context)?;
    let bases = list_bases(store).await.with_context(context)?;
    for at in &bases {
        let counts = Base::read(store, at).await.with_context(context)?.counts;
        if is_json {
            let line = json!({
                "at": at.to_string(), "rows": counts.rows, "messages": counts.messages, "blocks": counts.blocks
            });
            plain::json_line(out, &line)?;
        } else {
            let (rows, messages) = (plain::grouped(counts.rows), plain::grouped(counts.messages));
            writeln!(
                out,
                "{at}  {rows} rows, {messages} messages, {} blocks",
                plain::grouped(counts.blocks)
            )?;
        }
    }
    if bases.is_empty() && !is_json {
        writeln!(out, "{target} has no copy.")?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;

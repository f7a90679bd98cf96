//! `annalist demo`: what `up` runs, with a made-up workspace instead of Slack.
//!
//! * [`workspace`] writes a week of events, with [`lines`] and the shapes of [`slack`]; [`play`] delivers them.
//! * [`tally`] counts what the archive holds then; [`tour`] says so, and what to type next.

mod lines;
mod play;
mod slack;
mod tally;
mod tour;
mod workspace;

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use secrecy::SecretString;
use shared::archive::{Query, key};
use shared::clock::{SharedClock, SystemClock};
use shared::config::DataArgs;
use shared::config::backend::Backend;
use shared::embedded::DATABASE_FILE;
use shared::slack::ids::TeamId;
use shared::slack::signature::SigningSecrets;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::composition::Composition;
use crate::operate::status;

use play::Slack;
use workspace::Workspace;

/// Says that a folder may be replaced: the demo made it.
const MARKER: &str = "made-by-annalist-demo";

/// The same week every time, so that what one person sees, another can look up.
const SEED: u64 = 2026;

/// Slack delivers over several connections too.
const CONNECTIONS: usize = 16;

/// Far more than a few hundred events take on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to see whether everything is stored.
const LOOK: Duration = Duration::from_millis(5);

/// `annalist demo`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DemoArgs {
    /// Folder for the demo's archive; one that an earlier demo made is replaced
    #[arg(long, value_name = "DIR", default_value = "annalist-demo")]
    data: PathBuf,
}

/// Plays the workspace and says what came of it.
pub(crate) fn run(args: &DemoArgs, program: &OsStr, out: &mut dyn Write) -> anyhow::Result<()> {
    // What goes wrong here is an error of this command; the log would talk over the tour.
    crate::runtime(&mut Builder::new_multi_thread())?.block_on(play(args, program, out))
}

async fn play(args: &DemoArgs, program: &OsStr, out: &mut dyn Write) -> anyhow::Result<()> {
    let clock: SharedClock = SystemClock::shared();
    let data = DataArgs { data: args.data.clone() };
    make_way(&data, &clock).await?;
    let backend = Backend::open(&data, Arc::clone(&clock))?;
    std::fs::write(data.data.join(MARKER), "`annalist demo` replaces this folder.\n")?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let secrets = random_secret()?;
    let mut composition = Composition::start(&backend, listener, secrets.clone(), &clock)?;
    let ingest = composition.address;
    let slack = Slack { ingest, secrets, forged: random_secret()?, clock: Arc::clone(&clock) };
    let Workspace { opening, rest, expected, sights } = Workspace::new(SEED, clock.now());
    let kinds = tour::kinds(&rest);
    let played = async {
        slack.play(opening, 1).await?;
        let acks = slack.play(rest, CONNECTIONS).await?;
        timeout(PATIENCE, stored(&backend))
            .await
            .context("the events are acked but not stored in time")??;
        anyhow::Ok(acks)
    };
    let acks = tokio::select! {
        acks = played => acks?,
        broken = composition.broken() => return Err(broken),
    };
    let tally = tally::count(&*backend.archive, &TeamId::parse(slack::TEAM)?).await?;
    composition.drain().await;
    backend.close().await;
    ensure!(
        tally == expected,
        "the archive should hold {expected:?} but holds {tally:?}: please report this as a bug"
    );

    tour::sent(out, ingest, &kinds, &acks)?;
    tour::kept(out, &tally)?;
    tour::commands(out, &as_typed(program), &data.data, &sights)?;
    Ok(())
}

/// Waits until no worker has anything left to do. Depths are asked for, since nothing tells when they become zero.
async fn stored(backend: &Backend) -> anyhow::Result<()> {
    while !status::read(&*backend.queue, &*backend.archive).await?.idle {
        sleep(LOOK).await;
    }
    Ok(())
}

fn random_secret() -> anyhow::Result<SigningSecrets> {
    let mut random = fastrand::Rng::new();
    Ok(SigningSecrets::parse(&SecretString::from(format!("{:032x}", random.u128(..))))?)
}

/// Removes what an earlier demo left, and nothing else.
async fn make_way(data: &DataArgs, clock: &SharedClock) -> anyhow::Result<()> {
    let folder = &data.data;
    let refuse =
        format!("{} is not a folder that the demo made: choose another one with --data", folder.display());
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(_) => bail!(refuse),
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(());
            }
        }
    }
    ensure!(folder.join(MARKER).is_file(), refuse);
    if folder.join(DATABASE_FILE).exists() {
        let earlier = Backend::open_existing(data, Arc::clone(clock))?;
        let teams = earlier.archive.query(&Query::partition(key::TEAMS)).await?;
        earlier.close().await;
        let others = teams.items.iter().any(|team| team.key.timestamp != slack::TEAM);
        ensure!(
            !others,
            "{} was made by the demo but holds another workspace by now: choose another folder with --data",
            folder.display()
        );
    }
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot replace {}", folder.display()))
}

/// The program as a person would type it here: cargo starts it by its whole path.
fn as_typed(program: &OsStr) -> OsString {
    let here = std::env::current_dir().ok();
    here.and_then(|here| Path::new(program).strip_prefix(here).ok().map(|path| path.as_os_str().to_owned()))
        .unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn make_way_in(folder: &Path) -> anyhow::Result<()> {
        make_way(&DataArgs { data: folder.to_owned() }, &SystemClock::shared()).await
    }

    #[tokio::test]
    async fn only_what_the_demo_made_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("demo");
        make_way_in(&folder).await.unwrap();
        std::fs::create_dir(&folder).unwrap();
        make_way_in(&folder).await.unwrap();

        std::fs::write(folder.join("precious"), "").unwrap();
        let refused = make_way_in(&folder).await.unwrap_err().to_string();
        assert!(refused.contains("--data") && folder.join("precious").exists(), "{refused}");
        assert!(make_way_in(&folder.join("precious")).await.is_err());

        std::fs::write(folder.join(MARKER), "").unwrap();
        make_way_in(&folder).await.unwrap();
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_demo_folder_that_holds_another_workspace_is_left_alone() {
        let fixture = crate::fixture::Fixture::open();
        let folder = fixture.data().data;
        std::fs::write(folder.join(MARKER), "").unwrap();
        fixture.post("T1", "C1", "1.000000", "a real message").await;
        assert!(make_way_in(&folder).await.unwrap_err().to_string().contains("another workspace"));
        assert!(folder.join(MARKER).exists());
    }
}

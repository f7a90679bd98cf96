//! `annalist demo`: the same parts as `up`, with a made-up workspace instead of Slack.
//!
//! * [`week`] is the recorded content: a week of events, as data.
//! * [`play`] delivers the events, and [`web`] serves Slack's Web API.
//! * [`question`] asks the responder a question.
//! * [`tally`] counts what the archive contains afterwards; [`summary`] prints the counts and the commands to
//!   try next.

mod play;
mod question;
mod summary;
mod tally;
mod web;
mod week;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use embedded::DATABASE_FILE;
use fleet::args::ExistenceArgs;
use fleet::args::HistorianArgs;
use fleet::args::WaitArgs;
use fleet::args::{ResponderMode, ResponderSettings};
use fleet::environment::WorkSettings;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use ports::archive::{ItemKey, Query, key};
use ports::clock::{SharedClock, SystemClock};
use ports::reread::Reread;
use process::config::IndexArgs;
use process::config::backend::{Backend, BackendArgs, INDEX_FILE};
use process::config::viewer::{DEFAULT_VIEWER_LISTEN, ViewerArgs};
use secrecy::SecretString;
use slack::ids::TeamId;
use slack::signature::SigningSecrets;
use slack_api::{BotToken, Tokens, WebApi};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use workers::directory::DirectorySync;
use workers::directory::MembersToList;
use workers::file_downloader;
use workers::historian::BackfillMode;
use workers::keeper::NightTime;

use crate::composition::{Composition, wait_until_true};
use crate::operate::status;
use crate::search::index_file;
use crate::view::ViewerEndpoint;

use play::{Acks, DemoPlayer};
use week::{DemoRequest, WeekHead};

/// Name of a file that marks a folder as made by the demo, which therefore may replace it.
const MARKER: &str = "made-by-annalist-demo";

/// Slack, too, delivers over several connections.
const CONNECTIONS: usize = 16;

/// The made-up Slack has no rate limits, and the user should not wait.
const FILES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(6_000).unwrap();

/// Far longer than a few hundred events take on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// `annalist demo`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DemoArgs {
    /// Folder for the demo's archive; one that an earlier demo made is replaced
    #[arg(long, value_name = "DIR", default_value = "annalist-demo")]
    data: PathBuf,
    #[command(flatten)]
    viewer: ViewerArgs,
}

/// Plays the workspace and prints a summary.
pub(crate) fn run(args: &DemoArgs, program: &OsStr, out: &mut dyn Write) -> anyhow::Result<()> {
    // No log: it would mix with the summary, and failures are returned as errors of this command.
    crate::runtime(&mut Builder::new_multi_thread())?.block_on(play(args, program, out))
}

async fn play(args: &DemoArgs, program: &OsStr, out: &mut dyn Write) -> anyhow::Result<()> {
    // A person at a terminal may want to browse; a script has to pass the flag.
    let default_address = io::stdout().is_terminal().then_some(DEFAULT_VIEWER_LISTEN);
    let endpoint = args
        .viewer
        .viewer_listen
        .or(default_address)
        .map(|address| ViewerEndpoint::read(&args.viewer, address, None))
        .transpose()?;
    let clock: SharedClock = SystemClock::shared();
    let backend_args = BackendArgs::embedded(&args.data);
    remove_earlier_demo(&args.data, &clock).await?;
    let backend = Backend::open(&backend_args, Arc::clone(&clock)).await?;
    std::fs::write(args.data.join(MARKER), "`annalist demo` replaces this folder.\n")?;

    let web_listener = TcpListener::bind("127.0.0.1:0").await?;
    let origin = format!("http://{}", web_listener.local_addr()?);
    let (week, requests) = week::read(clock.now(), &origin)?;
    let (opening, rest) = requests.split_at(week.opening);
    // Any token works, because only this process uses it.
    let token = format!("made-up-{:032x}", fastrand::u128(..));
    let api = Arc::new(WebApi::new(format!("{origin}/api/").parse()?, Tokens::one(BotToken::parse(&token)?)));
    let web = web::DemoSlack::new(token, &origin, &week);
    let (_open, closed) = watch::channel(false);
    tokio::spawn(ingest::serve(web_listener, Arc::clone(&web).router(), wait_until_true(closed)));

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let secrets = random_secret()?;
    let downloads = file_downloader::DownloadSettings {
        files_per_minute: FILES_PER_MINUTE,
        ..file_downloader::DownloadSettings::default()
    };
    let existence = ExistenceArgs::default();
    let backfill = HistorianArgs { backfill: Some(BackfillMode::Off) };
    let responder = ResponderSettings { mode: ResponderMode::On, ..ResponderSettings::off() };
    let work = WorkSettings {
        web: Arc::clone(&api),
        join: true,
        members: MembersToList::Off,
        existence,
        downloads,
        backfill,
        night: NightTime { at: Time::midnight(), zone: TimeZone::UTC },
        responder,
        waiting: WaitArgs::default(),
        search_index: None,
    };
    let index = Some(args.data.join(INDEX_FILE));
    let mut composition = Composition::start(
        &backend,
        listener,
        (Some(Arc::new(Reread::fixed(secrets.clone().into()))), None),
        &clock,
        work,
        index,
    )?;
    let ingest = composition.address;
    let slack = DemoPlayer { ingest, secrets, forged: random_secret()?, clock: Arc::clone(&clock) };
    let played = perform((&week, opening, rest), &slack, &web, api, &backend);
    let acks = tokio::select! {
        acks = played => acks?,
        broken = composition.wait_for_failure() => return Err(broken),
    };
    let tally = tally::count(&*backend.archive(), &*backend.files(), &TeamId::parse(week::TEAM)?).await?;
    question::ask(&slack, &clock).await?;
    eventually("the question is not answered", async || Ok(web.answer().is_some())).await?;
    composition.drain().await;
    let expected = &week.expected;
    ensure!(
        tally == *expected,
        "the archive should hold {expected:?} but holds {tally:?}: please report this as a bug"
    );

    summary::print_requests(out, ingest, rest, &acks)?;
    summary::print_directory(out, web.joined(), &week)?;
    summary::print_archive(out, &tally)?;
    summary::print_answer(out, question::QUESTION, &web.answer().unwrap_or_default())?;
    summary::print_commands(out, &as_typed(program), &args.data, &week)?;
    if let Some(endpoint) = endpoint {
        show(&endpoint, &backend, &backend_args, &clock, out).await?;
    }
    backend.close().await;
    Ok(())
}

/// Serves the viewer's pages of the demo archive until a signal.
async fn show(
    endpoint: &ViewerEndpoint,
    backend: &Backend,
    backend_args: &BackendArgs,
    clock: &SharedClock,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let stop = process::shutdown::on_signal()?;
    let listener = match endpoint.bind().await {
        Ok(listener) => listener,
        // Another program has the port, perhaps another demo.
        Err(_) => TcpListener::bind("127.0.0.1:0").await?,
    };
    let address = listener.local_addr()?;
    let file = index_file(&IndexArgs { folder: None }, backend_args)?;
    let router = endpoint.router(backend, backend_args, file, clock, address)?;
    writeln!(out, "\nIn a browser on this machine it is at http://{address}/ until Ctrl-C.")?;
    out.flush()?;
    viewer::serve(listener, router, wait_until_true(stop)).await;
    Ok(())
}

/// Plays the week: from the app's first directory sync to the one that finds the changes it missed.
async fn perform(
    (week, opening, rest): (&WeekHead, &[DemoRequest], &[DemoRequest]),
    slack: &DemoPlayer,
    web: &web::DemoSlack,
    api: Arc<WebApi>,
    backend: &Backend,
) -> anyhow::Result<Acks> {
    let team = TeamId::parse(week::TEAM)?;
    let synced = ItemKey::directory_sync(&team);
    eventually("the directory is not synced", async || Ok(backend.archive().get(&synced).await?.is_some()))
        .await?;
    slack.play(opening, 1).await?;
    // Every channel must be known as public before an event reports that one has become private.
    stored(backend).await?;
    let acks = slack.play(rest, CONNECTIONS).await?;
    stored(backend).await?;

    // The sync of a machine that was off for an hour.
    web.end_the_week();
    let report = DirectorySync::new(api, backend.archive(), backend.queue()).sync(&team).await;
    if let Some(failure) = report.failure {
        return Err(failure).context("the directory is not synced again");
    }
    stored(backend).await?;
    eventually("the app has not joined every channel", async || Ok(web.joined() == week.joined)).await?;
    Ok(acks)
}

/// Waits until the queues are idle.
async fn stored(backend: &Backend) -> anyhow::Result<()> {
    eventually("the events are acked but not stored", async || {
        Ok(status::read(&*backend.queue(), &*backend.archive()).await?.idle)
    })
    .await
}

/// Polls until a condition holds that no notification announces.
async fn eventually(
    otherwise: &'static str,
    mut condition: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let polling = async {
        while !condition().await? {
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    };
    timeout(TIMEOUT, polling).await.with_context(|| format!("{otherwise} in time"))?
}

fn random_secret() -> anyhow::Result<SigningSecrets> {
    let mut random = fastrand::Rng::new();
    Ok(SigningSecrets::parse(&SecretString::from(format!("{:032x}", random.u128(..))))?)
}

/// Removes the folder of an earlier demo. Refuses any other folder that is not empty.
async fn remove_earlier_demo(folder: &Path, clock: &SharedClock) -> anyhow::Result<()> {
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
        let earlier = Backend::open_existing(&BackendArgs::embedded(folder), Arc::clone(clock)).await?;
        let teams = earlier.archive().query(&Query::partition(key::teams())).await?;
        let is_in_use = earlier.database().map_or(Ok(false), |database| database.is_used_by_others())?;
        earlier.close().await;
        let others = teams.items.iter().any(|team| team.key.timestamp != week::TEAM);
        ensure!(
            !others,
            "{} was made by the demo but holds another workspace by now: choose another folder with --data",
            folder.display()
        );
        ensure!(
            !is_in_use,
            "{} is in use: end `annalist view` or `annalist up` there, or choose another folder with --data",
            folder.display()
        );
    }
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot replace {}", folder.display()))
}

/// Returns the program relative to the current folder, as a person would type it: cargo starts it by its
/// absolute path.
fn as_typed(program: &OsStr) -> OsString {
    let here = std::env::current_dir().ok();
    here.and_then(|here| Path::new(program).strip_prefix(here).ok().map(|path| path.as_os_str().to_owned()))
        .unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn remove_earlier_demo_in(folder: &Path) -> anyhow::Result<()> {
        remove_earlier_demo(folder, &SystemClock::shared()).await
    }

    #[tokio::test]
    async fn only_a_folder_made_by_the_demo_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("demo");
        remove_earlier_demo_in(&folder).await.unwrap();
        std::fs::create_dir(&folder).unwrap();
        remove_earlier_demo_in(&folder).await.unwrap();

        std::fs::write(folder.join("precious"), "").unwrap();
        let refused = remove_earlier_demo_in(&folder).await.unwrap_err().to_string();
        assert!(refused.contains("--data") && folder.join("precious").exists(), "{refused}");
        assert!(remove_earlier_demo_in(&folder.join("precious")).await.is_err());

        std::fs::write(folder.join(MARKER), "").unwrap();
        remove_earlier_demo_in(&folder).await.unwrap();
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_demo_folder_in_use_is_left_alone() {
        let fixture = crate::fixture::CliFixture::open().await;
        let folder = fixture.data().data.data;
        std::fs::write(folder.join(MARKER), "").unwrap();
        let refused = remove_earlier_demo_in(&folder).await.unwrap_err().to_string();
        assert!(refused.contains("is in use") && folder.join(MARKER).exists(), "{refused}");
    }

    #[tokio::test]
    async fn a_demo_folder_that_holds_another_workspace_is_left_alone() {
        let fixture = crate::fixture::CliFixture::open().await;
        let folder = fixture.data().data.data;
        std::fs::write(folder.join(MARKER), "").unwrap();
        fixture.post("T1", "C1", "1700000001.000000", "a real message").await;
        assert!(remove_earlier_demo_in(&folder).await.unwrap_err().to_string().contains("another workspace"));
        assert!(folder.join(MARKER).exists());
    }
}

//! `annalist setup`: from nothing to a settings file with which `annalist up` starts.
//!
//! [`hidden`] reads secrets from a terminal, [`check`] asks Slack about them, [`lines`] changes the settings file, and
//! [`service`] writes a systemd unit.

mod check;
mod hidden;
mod lines;
mod service;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ports::clock::SystemClock;
use process::config::named_file::{MAX_SETTING_BYTES, read_text};
use process::config::setup::{NewInstallationArgs, VIEWER_LISTEN};
use process::config::slack::api_url;
use process::config::viewer::DEFAULT_VIEWER_LISTEN;
use process::config::{APP_TOKEN, BOT_TOKEN, ConfigError, SIGNING_SECRET};

use crate::UsageError;
use crate::manifest::{self, EventDelivery};
use crate::operate::target;
use check::SecretRefusal;

/// How often it asks for a secret: a person who pastes a wrong one four times has to look it up.
const QUESTIONS: usize = 4;

/// `annalist setup`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SetupArgs {
    #[command(flatten)]
    installation: NewInstallationArgs,
    /// Where Slack reaches `annalist up`, instead of a socket, which needs no address
    #[arg(long, value_name = "URL", value_parser = manifest::request_url)]
    url: Option<String>,
    /// For an app that also answers questions
    #[arg(long)]
    responder: bool,
    /// Also write a systemd unit
    #[arg(long, value_name = "FILE", value_parser = target::path())]
    service: Option<PathBuf>,
    /// Ask nothing: take the secrets from the environment or the settings file
    #[arg(long)]
    yes: bool,
}

/// A secret, and where Slack's pages show it.
#[derive(Clone, Copy)]
struct SetupSecret {
    variable: &'static str,
    question: &'static str,
}

const BOT: SetupSecret =
    SetupSecret { variable: BOT_TOKEN.value, question: "Bot User OAuth Token (OAuth & Permissions)" };

const APP: SetupSecret = SetupSecret {
    variable: APP_TOKEN,
    question: "App-Level Token (Basic Information > App-Level Tokens > Generate, with the scope connections:write)",
};

const SIGNING: SetupSecret = SetupSecret {
    variable: SIGNING_SECRET.value,
    question: "Signing Secret (Basic Information > App Credentials)",
};

/// Creates or completes the settings file. Starts nothing.
pub(crate) async fn run(args: &SetupArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let settings_path = args.installation.settings_path();
    let known = args.installation.known().map_err(ConfigError::from)?;
    let url = api_url(&args.installation.slack(&known))?;
    let (delivery, second) = match &args.url {
        Some(url) => (EventDelivery::Requests(url), SIGNING),
        None => (EventDelivery::Socket, APP),
    };
    let unit = args.service.as_ref().map(|_| unit(args, &settings_path)).transpose()?;
    let asks = !args.yes && io::stdin().is_terminal();
    let missing = [BOT.variable, second.variable].into_iter().filter(|name| known.value(name).is_none());
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        print_link(&manifest::link(delivery, args.responder), asks, out)?;
        if !asks {
            let names = missing.join(" and ");
            let why = "create the app with the link above, set them, and run `annalist setup` again";
            return Err(UsageError::new(format!("{names}: not set; {why}")).into());
        }
    }

    let mut app = None;
    let bot_token = accepted(BOT, known.value(BOT.variable), asks, out, async |text| {
        let bot = check::bot_token(&url, text, args.responder, &SystemClock).await?;
        app = bot.app;
        Ok(format!("the app is installed in {}", crate::plain::line(&bot.workspace)))
    })
    .await?;
    let second_secret = accepted(second, known.value(second.variable), asks, out, async |text| {
        match delivery {
            EventDelivery::Socket => check::app_token(&url, text, app.as_deref()).await?,
            EventDelivery::Requests(_) => check::signing_secret(text)?,
        }
        Ok("accepted".to_owned())
    })
    .await?;

    let pages = args.installation.viewer_listen.map(|address| address.to_string());
    let pages = pages.or_else(|| known.value(VIEWER_LISTEN));
    let pages = pages.unwrap_or_else(|| DEFAULT_VIEWER_LISTEN.to_string());
    let settings = [
        (BOT.variable, bot_token.as_str()),
        (second.variable, second_secret.as_str()),
        (VIEWER_LISTEN, pages.as_str()),
    ];
    write(&settings_path, &settings)?;
    if let (Some(path), Some(unit)) = (&args.service, unit) {
        write_unit(path, &unit)?;
    }
    print_next_step(args, &settings_path, &pages, out)
}

fn print_link(link: &str, asks: bool, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    if asks {
        writeln!(out, "Open this link, choose the workspace, and press Next, Create and Install App:\n")?;
    }
    writeln!(out, "{link}")?;
    if asks {
        writeln!(out, "\nThen copy what follows from the app's pages. The terminal does not show it.\n")?;
    }
    Ok(out.flush()?)
}

/// Returns a secret that passes the check: the known one, or one that a person enters.
async fn accepted(
    secret: SetupSecret,
    mut known: Option<String>,
    asks: bool,
    out: &mut (dyn Write + Send),
    mut check: impl AsyncFnMut(&str) -> Result<String, SecretRefusal>,
) -> anyhow::Result<String> {
    let variable = secret.variable;
    for _ in 0..QUESTIONS {
        let text = match known.take() {
            Some(text) => text,
            None => hidden::ask(secret.question, out)?,
        };
        match check(&text).await {
            Ok(found) => {
                writeln!(out, "{variable}: {found}")?;
                return Ok(text.trim().to_owned());
            }
            Err(SecretRefusal::Unchecked(error)) => {
                let context = format!("{variable} cannot be checked and nothing was written");
                return Err(anyhow::Error::new(error).context(context));
            }
            Err(SecretRefusal::Wrong(why)) if asks => writeln!(out, "{variable}: {why}")?,
            Err(SecretRefusal::Wrong(why)) => {
                return Err(UsageError::new(format!("{variable}: {why}")).into());
            }
        }
    }
    bail!("{variable}: no right one was given and nothing was written: run `annalist setup` again")
}

/// Writes these settings into the file, whose other lines stay.
fn write(path: &Path, settings: &[(&str, &str)]) -> anyhow::Result<()> {
    let text = if path.try_exists().unwrap_or(true) {
        let read = read_text(path, MAX_SETTING_BYTES).map_err(anyhow::Error::msg);
        read.with_context(|| format!("cannot read {}", path.display()))?
    } else {
        String::new()
    };
    target::write_private_file(path, &lines::with_settings(&text, settings), true)
}

/// The systemd unit of this installation.
fn unit(args: &SetupArgs, settings: &Path) -> anyhow::Result<String> {
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("cannot find the place of {}", path.display()))
    };
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let (data, settings) = (absolute(&args.installation.data.data)?, absolute(settings)?);
    Ok(service::unit(&program, &data, &settings, rustix::process::getuid().as_raw())?)
}

fn write_unit(path: &Path, unit: &str) -> anyhow::Result<()> {
    let path = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        bail!("{} names no file for the systemd unit", path.display());
    };
    target::write_file(folder, name, unit.as_bytes()).map(drop)
}

fn print_next_step(
    args: &SetupArgs,
    settings: &Path,
    pages: &str,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let settings = settings.display();
    let (place, command) = match &args.service {
        Some(service) => {
            let name = service.file_name().unwrap_or_default().display();
            let place = format!(", and the systemd unit is {}", service.display());
            (place, format!("systemctl daemon-reload && systemctl enable --now {name}"))
        }
        None => {
            let mut command = format!("annalist up --data {}", args.installation.data.data.display());
            if args.installation.settings.is_some() {
                command.push_str(&format!(" --settings {settings}"));
            }
            (String::new(), command)
        }
    };
    writeln!(out, "The settings are in {settings}{place}. Start the archive with:\n\n  {command}\n")?;
    if args.service.is_none() {
        writeln!(out, "To run it as a service, add --service /etc/systemd/system/annalist.service.")?;
    }
    writeln!(out, "The pages are then at http://{pages}/.")?;
    Ok(out.flush()?)
}

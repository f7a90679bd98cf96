//! `annalist reconcile --nightly`: a night's comparison with Slack, now.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::bail;
use process::config::backend::Backend;
use reader::{directory, proof::last_day};
use rules::history::proof::{ProofCounts, VerifiedChannel};
use serde_json::{Value, json};
use slack::ids::TeamId;
use slack_api::WebApi;
use tokio::sync::watch;
use workers::historian::{HistoryCalls, PausePolicy, SpanEnd};
use workers::keeper::{CALLS_PER_NIGHT, Proof};

use crate::operate::history::reading::{ChannelWatch, EarlyEnd, ReadingStop};
use crate::plain;

/// Maximum length of a channel's name in a line.
const NAME: usize = 40;

/// What was done in all channels.
#[derive(Default)]
struct NightTotals {
    found: ProofCounts,
    channels: u64,
    verified: u64,
}

/// Compares every channel, and prints what was found in each.
pub(super) async fn run(
    backend: &Backend,
    api: Arc<WebApi>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let shutdown = process::shutdown::on_signal()?;
    let (mut totals, mut early_end) = (NightTotals::default(), EarlyEnd::default());
    for team in api.teams().await? {
        if !early_end.note(workspace(backend, &api, &team, json, &shutdown, &mut totals, out).await?) {
            break;
        }
    }
    let NightTotals { found, channels, verified } = &totals;
    if json {
        let mut line = counted(found);
        line["channels"] = (*channels).into();
        line["verified"] = (*verified).into();
        plain::json_line(out, &line)?;
    } else {
        let all = plain::counted(*channels, "channel is", "channels are");
        writeln!(out, "{verified} of {all} compared; {}", sum(found))?;
    }
    out.flush()?;
    early_end.check("run it again; what was compared stays")?;
    if verified < channels {
        bail!("channels that could not be compared: {}", channels - verified);
    }
    Ok(())
}

async fn workspace(
    backend: &Backend,
    api: &Arc<WebApi>,
    team: &TeamId,
    json: bool,
    shutdown: &watch::Receiver<bool>,
    totals: &mut NightTotals,
    out: &mut dyn Write,
) -> anyhow::Result<Option<ReadingStop>> {
    let calls = HistoryCalls::new(Arc::clone(api), team.clone(), PausePolicy::WaitOut);
    let (archive, queue) = (backend.archive(), backend.queue());
    let proof = match Proof::begin(&*archive, &*queue, &calls, i64::MAX).await {
        Ok(proof) => proof,
        Err(error) => return Ok(Some(ReadingStop::Workspace(error))),
    };
    let names = directory::read(&*archive, team).await?;
    let before = proof.channels().await?;
    let mut watch = ChannelWatch::new(&calls, before.len(), shutdown);
    let (mut compared, mut stop) = (Vec::new(), None);
    for known in &before {
        if proof.is_left_out(known).await? {
            continue;
        }
        compared.push(known);
        if known.reaches(proof.midnight()) {
            continue;
        }
        let name = plain::channel_label(names.name(&known.channel), &known.channel, NAME);
        let reading = async { proof.newest_days(known, None, || true).await.map(|_| SpanEnd::Whole) };
        stop = watch.read(reading, || name.clone()).await.1;
        if stop.is_some() {
            break;
        }
    }
    if stop.is_none() {
        let older = async {
            while calls.made() < CALLS_PER_NIGHT {
                let channels = proof.channels().await?;
                let Some(known) = proof.next_older(&channels) else { break };
                proof.older_page(known).await?;
            }
            Ok(SpanEnd::Whole)
        };
        stop = watch.read(older, || "older days".to_owned()).await.1;
    }
    let after = proof.channels().await?;
    for known in compared {
        let Some(now) = after.iter().find(|now| now.channel == known.channel) else { continue };
        let found = now.found_in(proof.midnight()).minus(&known.found_in(proof.midnight()));
        totals.found = ProofCounts { error: None, ..totals.found.plus(&found) };
        totals.channels += 1;
        let is_verified = now.reaches(proof.midnight());
        totals.verified += u64::from(is_verified);
        let name = names.name(&known.channel);
        let print = |out: &mut dyn Write| print_channel(now, &found, name, is_verified, json, out);
        watch.print(out, print)?;
    }
    Ok(stop)
}

fn print_channel(
    known: &VerifiedChannel,
    found: &ProofCounts,
    name: Option<&str>,
    is_verified: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let error = found.error.as_deref().filter(|_| !is_verified);
    let state = match error {
        _ if is_verified => "verified",
        Some(_) => "unreadable",
        None => "stopped",
    };
    let proven = known.proven.as_ref();
    if as_json {
        let mut line = counted(found);
        line["channel_id"] = json!(known.channel);
        line["name"] = json!(name);
        line["from"] = json!(proven.map(|proven| &proven.from));
        line["through"] = json!(proven.map(|proven| &proven.through));
        line["state"] = state.into();
        if let Some(error) = error {
            line["error"] = plain::line(error).into();
        }
        return plain::json_line(out, &line);
    }
    let label = plain::channel_label(name, &known.channel, NAME);
    write!(out, "{label}: {}", sum(found))?;
    if let Some(proven) = proven {
        write!(out, "; complete up to {}", last_day(&proven.through))?;
    }
    match error {
        Some(error) => writeln!(out, "; {state}: {}", plain::line(error)),
        None if is_verified => writeln!(out),
        None => writeln!(out, "; {state}"),
    }
}

fn counted(found: &ProofCounts) -> Value {
    Value::Object(found.named().map(|(name, count)| (name.to_owned(), count.into())).into_iter().collect())
}

fn sum(found: &ProofCounts) -> String {
    let ProofCounts { missing, changed, extra, filled, calls, .. } = found;
    let calls = plain::counted(*calls, "call", "calls");
    format!("missing {missing}, changed {changed}, extra {extra}, filled {filled}; {calls}")
}

//! `annalist doctor`: finds missing steps of the set-up and prints the next one.
//!
//! * [`facts`] are gathered first, each with a timeout, by [`slack_facts`], [`local_facts`] and
//!   [`archive_facts`].
//! * [`settings`], [`setup`], [`socket`], [`arrival`], [`keeping`], [`gaps`], [`machine`], [`unnamed`], [`unmoved`] and [`responder`]
//!   evaluate them: pure functions of the facts.
//! * [`check`] is a result: one line each, in the order in which an installation is set up.

mod archive_facts;
mod arrival;
mod check;
mod facts;
mod gaps;
mod keeping;
mod local_facts;
mod machine;
mod responder;
mod settings;
mod setup;
mod slack_facts;
mod socket;
mod unmoved;
mod unnamed;

use std::io::{self, Write};

use anyhow::bail;
use fleet::args::ResponderArgs;
use ports::clock::{Clock, SystemClock};
use process::config::backend::{BackendArgs, BackendKind};
use process::config::slack::SlackArgs;
use process::config::socket::socket_api;
use process::config::{DEFAULT_METRICS_LISTEN, ListenArgs, MetricsArgs, settings_facts};
use slack::signing_table::SigningTable;

use self::check::{CheckState, DoctorCheck};
use self::facts::{Facts, Secret};
use crate::{manifest, plain};

/// `annalist doctor`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    slack: SlackArgs,
    #[command(flatten)]
    responder: ResponderArgs,
    /// The Request URL of the Slack app; tried as Slack tries it
    #[arg(long, value_name = "URL", value_parser = manifest::request_url)]
    url: Option<String>,
    /// One JSON object per check
    #[arg(long)]
    json: bool,
}

/// Runs all checks and prints their results. Returns an error with the first finding, if there is one.
pub(crate) async fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let clock = SystemClock;
    let facts = gather(args, &clock).await;
    let checks = all_checks(&facts, clock.now().seconds());
    for check in &checks {
        if args.json { plain::json_line(out, check)? } else { line(check, out)? }
    }
    let findings: Vec<&DoctorCheck> =
        checks.iter().filter(|check| check.state == CheckState::Finding).collect();
    let Some(first) = findings.first() else {
        if !args.json {
            writeln!(out, "\nNothing is missing that can be seen from here.")?;
        }
        return Ok(());
    };
    // The error must be the last line, because people read that one.
    out.flush()?;
    let count = findings.len();
    let findings = if count == 1 { "1 finding".to_owned() } else { format!("{count} findings; the first") };
    bail!("{findings}: {}: {}. Next: {}", first.check, first.says, first.next.as_deref().unwrap_or_default())
}

/// Returns all checks, in the order in which an installation is set up.
/// Gathers all facts concurrently, so that a request without a response delays no other.
async fn gather(args: &DoctorArgs, clock: &dyn Clock) -> Facts {
    let table = local_facts::signing_table().await;
    let seen = |table: &SigningTable| {
        let plain = table.secrets_of(None);
        let [count, odd] = plain.map_or([0; 2], |plain| [plain.count(), plain.unusual_count()]);
        Secret { count, odd, apps: table.app_count() }
    };
    let secret = table.as_ref().map(|table| table.as_ref().map(seen)).map_err(Clone::clone);
    let signed_with = table.as_ref().ok().and_then(Option::as_ref);
    let metrics = args.metrics.metrics_listen.unwrap_or(DEFAULT_METRICS_LISTEN);
    let own = async {
        // Before the doctor sends its own challenge, which may be refused and counted too.
        let ingest = local_facts::ingest(args.listen.listen, metrics).await;
        (ingest, local_facts::request_url(args.url.as_deref(), signed_with, clock).await)
    };
    let socket_api = socket_api(&args.slack);
    let names_app = matches!(socket_api, Ok(Some(_)));
    let (socket, slack, (ingest, request_url), archive) = tokio::join!(
        slack_facts::socket(socket_api),
        slack_facts::gather(&args.slack, names_app, clock),
        own,
        archive_facts::gather(&args.backend),
    );
    Facts {
        backend_flag: args.backend.selecting_flag(),
        on_aws: args.backend.backend == BackendKind::Aws,
        settings: settings_facts(),
        secret,
        socket,
        slack,
        responder: local_facts::responder(&args.responder).await,
        ingest,
        request_url,
        folder: local_facts::folder(&args.backend),
        archive,
    }
}

fn all_checks(facts: &Facts, now_s: i64) -> Vec<DoctorCheck> {
    let mut checks = vec![settings::check(&facts.settings)];
    checks.extend(setup::checks(facts));
    checks.push(socket::check(facts));
    checks.extend(arrival::checks(facts, now_s));
    checks.extend(keeping::checks(facts));
    if let Ok(archive_facts) = &facts.archive {
        checks.push(unnamed::check(&archive_facts.unnamed, facts.on_aws));
        let unmoved = archive_facts.unmoved.as_ref();
        checks.extend(unmoved.map(|unmoved| unmoved::check(unmoved, &facts.backend_flag)));
    }
    checks.push(responder::check(facts));
    checks
}

/// `finding  bot-token    … → …`.
fn line(check: &DoctorCheck, out: &mut dyn Write) -> io::Result<()> {
    let DoctorCheck { check, state, says, next } = check;
    write!(out, "{:<9}{check:<16}{}", state.word(), plain::line(says))?;
    match next {
        Some(next) => writeln!(out, " → {}", plain::line(next)),
        None => writeln!(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_result_and_the_next_step_without_control_characters() {
        let text = |check: &DoctorCheck| {
            let mut out = Vec::new();
            line(check, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&DoctorCheck::ok("clock", "it is right")), "ok       clock           it is right\n");
        let odd = text(&DoctorCheck::finding("bot-token", "of \u{1b}[2J", "go\non"));
        assert!(odd.starts_with("finding  bot-token") && odd.ends_with(" → go on\n"), "{odd:?}");
        assert!(!odd.contains('\u{1b}'), "{odd:?}");
    }

    #[test]
    fn the_json_of_a_check_has_four_fields() {
        let check = DoctorCheck::finding("gaps", "1 gap", "look");
        let expected =
            serde_json::json!({ "check": "gaps", "state": "finding", "says": "1 gap", "next": "look" });
        assert_eq!(serde_json::to_value(check).unwrap(), expected);
        let skipped = serde_json::to_value(DoctorCheck::skipped("gaps", "unread")).unwrap();
        assert_eq!((&skipped["state"], &skipped["next"]), (&"skipped".into(), &serde_json::Value::Null));
    }
}

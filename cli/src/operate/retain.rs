//! `annalist retain`: how long messages are kept.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use ports::archive::erasure::ExpiryFact;
use ports::archive::{Archive, ArchiveExt};
use ports::claims::{ClaimContext, ClaimKey, ClaimMode};
use ports::clock::SharedClock;
use process::config::backend::{Backend, BackendArgs};
use process::config::instance_id;
use reader::directory;
use reader::range::ts_from_micros;
use rules::message::rfc3339;
use rules::retention::{RetentionPeriod, RetentionRule, RetentionRules};
use rules::version;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::time::{Instant, sleep};
use workers::claims::{ClaimGuard, ClaimOutcome, ClaimSettings, Claimant, Sink};
use workers::eraser::{EraserCounts, EraserMode};
use workers::keeper::{RetentionPlan, read_rules};

use super::scope::{self, ScopeArgs};
use crate::UsageError;
use crate::plain;
use crate::read::{channel_name, human_size};

/// How long `retain run` waits for another run.
const WAIT_FOR_OTHER: Duration = Duration::from_secs(10);

/// `annalist retain …`.
#[derive(Debug, Subcommand)]
pub(crate) enum RetainCommand {
    /// Set how long messages are kept, in a channel or in a whole workspace
    #[command(
        after_help = "Without --yes it says what the next night would remove, and changes nothing:\n  \
        annalist retain set --workspace 365d\n  \
        annalist retain set '#legal' forever --yes"
    )]
    Set(SetRuleArgs),
    /// Take back the rule of a channel: that of the workspace applies again
    Unset(UnsetRuleArgs),
    /// List the rules
    List(ListRulesArgs),
    /// Remove what has expired now; otherwise it is removed every night
    Run(RetainRunArgs),
}

/// `annalist retain set`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetRuleArgs {
    /// The channel, unless --workspace is there, and how long its messages are kept: `90d` or `forever`
    #[arg(value_names = ["CHANNEL", "AGE"], num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// In every channel that has no rule of its own
    #[arg(long)]
    workspace: bool,
    /// Set it; otherwise nothing is changed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: ScopeArgs,
}

/// `annalist retain unset`.
#[derive(Debug, clap::Args)]
pub(crate) struct UnsetRuleArgs {
    /// Channel name or id, such as '#general' or C0123ABCD
    #[arg(value_name = "CHANNEL", value_parser = channel_name)]
    channel: String,
    /// Unset it; otherwise nothing is changed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: ScopeArgs,
}

/// `annalist retain list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListRulesArgs {
    /// Every rule that was ever set, oldest first
    #[arg(long)]
    history: bool,
    #[command(flatten)]
    common: ScopeArgs,
}

/// `annalist retain run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RetainRunArgs {
    /// Count what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: ScopeArgs,
}

impl RetainCommand {
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::Set(args) => &args.common.backend,
            Self::Unset(args) => &args.common.backend,
            Self::List(args) => &args.common.backend,
            Self::Run(args) => &args.common.backend,
        }
    }
}

/// Sets, lists or applies rules.
pub(crate) async fn run(
    backend: &Backend,
    clock: &SharedClock,
    command: &RetainCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match command {
        RetainCommand::Set(args) => {
            let (channel, age) = match (&args.words[..], args.workspace) {
                ([age], true) => (None, age),
                ([channel, age], false) => (Some(channel.as_str()), age),
                _ => {
                    return Err(
                        UsageError::new("name a channel and an age, or --workspace and an age").into()
                    );
                }
            };
            let Some(period) = RetentionPeriod::parse(age) else {
                let age = plain::excerpt(age, 40);
                return Err(UsageError::new(format!(
                    "{age} is not an age: write 90d (at least 1d) or forever"
                ))
                .into());
            };
            set(backend, clock, &args.common, (channel, period), args.yes, out).await
        }
        RetainCommand::Unset(args) => {
            let rule = (Some(&*args.channel), RetentionPeriod::AsWorkspace);
            set(backend, clock, &args.common, rule, args.yes, out).await
        }
        RetainCommand::List(args) => list(&*backend.archive(), args, out).await,
        RetainCommand::Run(args) => run_now(backend, clock, args, out).await,
    }
}

/// Sets a rule in each place of a channel, or in each workspace; or counts what it would remove.
async fn set(
    backend: &Backend,
    clock: &SharedClock,
    args: &ScopeArgs,
    (channel, period): (Option<&str>, RetentionPeriod),
    yes: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (archive, files) = (backend.archive(), backend.files());
    let places: Vec<(TeamId, Option<ChannelId>)> = match channel {
        Some(channel) => {
            let places = scope::channel(&*archive, channel, args.team.as_ref()).await?;
            places.into_iter().map(|place| (place.team, Some(place.channel))).collect()
        }
        None => {
            let teams = scope::teams(&*archive, args.team.as_ref()).await?;
            teams.into_iter().map(|team| (team, None)).collect()
        }
    };
    let now = clock.now();
    let set_at = ts_from_micros(now.0.saturating_mul(1_000));
    for (team, channel) in places {
        let mut rules: RetentionRules = read_rules(&*archive, &team).await?.into_iter().collect();
        let by = process::config::system_user();
        let rule = RetentionRule { team, channel, period, by, set_at: set_at.clone() };
        rules.insert(rule.clone());
        let plan = RetentionPlan::read(&*archive, &rule.team, rules.clone(), now).await?;
        let (channels, sum) = plan.run(&*archive, &*files, EraserMode::Plan).await?;
        let of_channel = rule.channel.as_ref();
        let own = channels.iter().find(|expired| Some(&expired.channel) == of_channel);
        let counts = if of_channel.is_some() { own.map(|own| own.counts).unwrap_or_default() } else { sum };
        if yes {
            if let Some(channel) = of_channel {
                own_fact(&*archive, &rule.team, channel).await?;
            }
            archive.write(&rule.update()).await?;
        }
        let days = rules.days(of_channel);
        let shown = ShownCounts {
            team: &rule.team,
            channel: of_channel,
            days,
            until: plan.until(of_channel),
            counts,
            dry_run: !yes,
        };
        if args.json {
            shown.print_json(out)?;
        } else {
            let what = channel_words(&*archive, &rule.team, of_channel).await?;
            let kept = days.map_or("for ever".to_owned(), |days| plain::counted(days, "day", "days"));
            writeln!(
                out,
                "{what} of {}: messages are kept {kept}. The next night removes {}.",
                rule.team,
                words(&shown.counts)
            )?;
        }
    }
    if !yes && !args.json {
        writeln!(out, "Nothing was changed: --yes sets the rule.")?;
    }
    Ok(())
}

/// Gives a channel its own fact, which replaces that of every channel, so that a longer rule applies at once.
async fn own_fact(archive: &dyn Archive, team: &TeamId, channel: &ChannelId) -> anyhow::Result<()> {
    let own = archive.get(&ExpiryFact::key(team, Some(channel))).await?;
    if own.as_ref().and_then(ExpiryFact::read).is_some() {
        return Ok(());
    }
    let of_every_channel = archive.get(&ExpiryFact::key(team, None)).await?;
    let of_every_channel = of_every_channel.as_ref().and_then(ExpiryFact::read);
    // `done` first: a fact without it would be searched from the beginning of the channel.
    if let Some(done) = of_every_channel.as_ref().and_then(|fact| fact.done.as_ref()) {
        archive.write(&ExpiryFact::finish(team, Some(channel), done)).await?;
    }
    let until = of_every_channel.map_or_else(version::zero, |fact| fact.until);
    archive.write(&ExpiryFact::expire(team, Some(channel), &until)).await?;
    Ok(())
}

async fn list(archive: &dyn Archive, args: &ListRulesArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    for team in scope::teams(archive, args.common.team.as_ref()).await? {
        let mut all = read_rules(archive, &team).await?;
        all.sort_by(|a, b| a.set_at.cmp(&b.set_at));
        let current: RetentionRules = all.iter().cloned().collect();
        let names = directory::read(archive, &team).await?;
        let shown = if args.history { all } else { current.iter().cloned().collect() };
        for rule in shown {
            let fact = archive.get(&ExpiryFact::key(&team, rule.channel.as_ref())).await?;
            let until = fact.as_ref().and_then(ExpiryFact::read).map(|fact| fact.until);
            let name = rule.channel.as_ref().and_then(|channel| names.name(channel));
            if args.common.json {
                let line = json!({ "team_id": team, "channel_id": rule.channel, "name": name,
                    "days": rule.period.days(), "by": rule.by, "set_at": rfc3339(&rule.set_at), "until": until });
                plain::json_line(out, &line)?;
                continue;
            }
            let what = rule.channel.as_ref().map_or_else(
                || "every other channel".to_owned(),
                |channel| plain::channel_label(name, channel, 80),
            );
            let kept = match rule.period {
                RetentionPeriod::Days(days) => plain::counted(days, "day", "days"),
                RetentionPeriod::Forever => "for ever".into(),
                RetentionPeriod::AsWorkspace => "as in every other channel".into(),
            };
            let by =
                rule.by.as_deref().map_or_else(String::new, |by| format!(" by {}", plain::excerpt(by, 40)));
            writeln!(out, "{team}  {what}  {kept}, set {}{by}", rfc3339(&rule.set_at))?;
        }
    }
    Ok(())
}

async fn run_now(
    backend: &Backend,
    clock: &SharedClock,
    args: &RetainRunArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (archive, files) = (backend.archive(), backend.files());
    let claimant = Claimant::new(backend.claims(), clock.clone(), instance_id(), ClaimSettings::default());
    let mut sum = EraserCounts::default();
    for team in scope::teams(&*archive, args.common.team.as_ref()).await? {
        let rules: RetentionRules = read_rules(&*archive, &team).await?.into_iter().collect();
        let now = clock.now();
        let (channels, of_team) = if args.dry_run {
            let plan = RetentionPlan::read(&*archive, &team, rules, now).await?;
            plan.run(&*archive, &*files, EraserMode::Plan).await?
        } else {
            let mut claim = claim(&claimant, &team).await?;
            let work = async {
                let plan = RetentionPlan::read(&*archive, &team, rules, now).await?;
                let (by, late) = (process::config::system_user(), backend.writers_know_after());
                anyhow::Ok(plan.apply(&*archive, &*files, now, by, late).await?)
            };
            let done = claim.keep(work).await;
            claim.release().await;
            done??
        };
        sum += of_team;
        let names = directory::read(&*archive, &team).await?;
        for expired in &channels {
            let shown = ShownCounts {
                team: &team,
                channel: Some(&expired.channel),
                days: expired.days,
                until: Some(expired.until.clone()),
                counts: expired.counts,
                dry_run: args.dry_run,
            };
            if args.common.json {
                shown.print_json(out)?;
            } else if expired.counts.messages + expired.counts.revisions + expired.counts.held > 0 {
                let name = plain::channel_label(names.name(&expired.channel), &expired.channel, 80);
                writeln!(out, "{name}: {}", words(&shown.counts))?;
            }
        }
    }
    let EraserCounts { messages, revisions, files, bytes, held, .. } = sum;
    if args.common.json {
        let line = json!({ "dry_run": args.dry_run, "messages": messages, "revisions": revisions,
            "files": files, "bytes": bytes, "held": held });
        return Ok(plain::json_line(out, &line)?);
    }
    let word = if args.dry_run { "Would remove" } else { "Removed" };
    Ok(writeln!(out, "{word} {}.", words(&sum))?)
}

/// Waits until no other run of a workspace is in progress.
async fn claim<'c>(claimant: &'c Claimant, team: &TeamId) -> anyhow::Result<ClaimGuard<'c>> {
    let began = Instant::now();
    loop {
        let key = ClaimKey::for_retention(team);
        match claimant.claim(key, ClaimContext::default(), Sink::Once, ClaimMode::EvenCompleted).await? {
            ClaimOutcome::Ours(claim) => return Ok(claim),
            ClaimOutcome::Completed | ClaimOutcome::HeldFor(_) if began.elapsed() < WAIT_FOR_OTHER => {
                sleep(Duration::from_secs(1)).await;
            }
            ClaimOutcome::Completed | ClaimOutcome::HeldFor(_) => {
                bail!("another run removes what has expired in {team}: wait until it is done")
            }
        }
    }
}

async fn channel_words(
    archive: &dyn Archive,
    team: &TeamId,
    channel: Option<&ChannelId>,
) -> anyhow::Result<String> {
    let Some(channel) = channel else { return Ok("Every channel without its own rule".into()) };
    let names = directory::read(archive, team).await?;
    Ok(plain::channel_label(names.name(channel), channel, 80))
}

/// The counts of a channel or of a workspace.
struct ShownCounts<'s> {
    team: &'s TeamId,
    channel: Option<&'s ChannelId>,
    days: Option<u32>,
    until: Option<Ts>,
    counts: EraserCounts,
    dry_run: bool,
}

impl ShownCounts<'_> {
    fn print_json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { team, channel, days, until, counts, dry_run } = self;
        let EraserCounts { messages, revisions, files, bytes, held, .. } = counts;
        let line = json!({ "team_id": team, "channel_id": channel, "days": days, "dry_run": dry_run,
            "messages": messages, "revisions": revisions, "files": files, "bytes": bytes, "held": held,
            "until": until });
        Ok(plain::json_line(out, &line)?)
    }
}

fn words(counts: &EraserCounts) -> String {
    let EraserCounts { messages, revisions, files, bytes, held, .. } = *counts;
    let mut words = format!(
        "{}, {} and {} ({})",
        plain::counted(messages, "message", "messages"),
        plain::counted(revisions, "earlier version", "earlier versions"),
        plain::counted(files, "file", "files"),
        human_size(bytes),
    );
    if held > 0 {
        words.push_str(&format!("; {} on hold", plain::counted(held, "message is", "messages are")));
    }
    words
}

#[cfg(test)]
#[path = "retain_tests.rs"]
mod tests;

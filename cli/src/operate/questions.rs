//! `annalist questions`: lists questions and their answers; retries or cancels questions.

use std::io::Write;

use anyhow::bail;
use clap::Subcommand;
use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Query, key, query_all};
use ports::clock::Clock;
use process::config::backend::{Backend, BackendArgs};
use process::config::zone::ZoneArgs;
use reader::find;
use rules::question::QuestionId;
use rules::question::job::QuestionJob;
use rules::question::rows::{self, AnswerRow, QuestionRow};
use rules::question::state::{TrackedKind, WorkStage};
use serde_json::{Value, json};
use slack::ids::TeamId;
use workers::archive_version;

use crate::UsageError;
use crate::plain;
use crate::read::{MessageArgs, ReadError, team};
use crate::zone::Zone;

/// Maximum length of a question in a list.
const MAX_SHOWN: usize = 100;

/// The values of `--status`.
const STATUSES: [&str; 4] = ["pending", "processing", "processed", "error"];

/// `annalist questions …`.
#[derive(Debug, Subcommand)]
pub(crate) enum QuestionsCommand {
    /// List the questions, oldest first
    List(ListArgs),
    /// Show a question and its answer whole
    #[command(mut_arg("limit", one_question))]
    Show(MessageArgs),
    /// Ask a question again that was not answered, or that is stuck
    #[command(mut_arg("limit", one_question))]
    Retry(MessageArgs),
    /// Never answer a question
    #[command(mut_arg("limit", one_question))]
    Cancel(MessageArgs),
}

/// Hides the limit of a command about one question.
fn one_question(limit: clap::Arg) -> clap::Arg {
    limit.hide(true)
}

/// `annalist questions list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only those that are pending, processing, processed or error
    #[arg(long, value_name = "STATUS", value_parser = STATUSES)]
    status: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

impl QuestionsCommand {
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::List(args) => &args.backend,
            Self::Show(args) | Self::Retry(args) | Self::Cancel(args) => &args.read.backend,
        }
    }
}

/// The rows of a question and of its answer.
struct FoundQuestion {
    question: QuestionRow,
    row: Item,
    answer: Option<(AnswerRow, Item)>,
}

pub(crate) async fn run(
    backend: &Backend,
    clock: &dyn Clock,
    command: &QuestionsCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = &*backend.archive();
    if matches!(command, QuestionsCommand::Retry(_) | QuestionsCommand::Cancel(_)) {
        archive_version::refuse_newer(archive).await?;
    }
    match command {
        QuestionsCommand::List(args) => list(archive, args, out).await,
        QuestionsCommand::Show(args) => {
            let found = find(archive, args).await?;
            if args.read.json {
                return Ok(plain::json_line(out, &found.json())?);
            }
            Ok(show(&found, &Zone::from_args(&args.read.zone), out)?)
        }
        QuestionsCommand::Retry(args) => {
            let found = find(archive, args).await?;
            retry(backend, clock, &found, out).await
        }
        QuestionsCommand::Cancel(args) => {
            let found = find(archive, args).await?;
            cancel(archive, clock, &found, out).await
        }
    }
}

async fn list(archive: &dyn Archive, args: &ListArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let teams = find::requested_teams(archive, args.team.as_ref()).await.map_err(UsageError::new)?;
    let mut questions = Vec::new();
    for team in teams {
        for row in query_all(archive, Query::partition(key::questions(&team))).await? {
            let Some(question) = QuestionRow::read(&row) else { continue };
            let status = TrackedKind::Question.label(question.state.stage);
            if args.status.as_deref().is_none_or(|requested| requested == status) {
                questions.push(with_answer(archive, question, row).await?);
            }
        }
    }
    questions.sort_by_key(|found| found.question.id.ts.micros());
    let zone = Zone::from_args(&args.zone);
    for found in &questions {
        if args.json {
            plain::json_line(out, &found.json())?;
        } else {
            line(found, &zone, out)?;
        }
    }
    if questions.is_empty() && !args.json {
        writeln!(out, "There are no such questions.")?;
    }
    Ok(())
}

async fn find(archive: &dyn Archive, args: &MessageArgs) -> anyhow::Result<FoundQuestion> {
    let location = find::find_single_location(archive, &args.channel, args.read.team.as_ref())
        .await
        .map_err(ReadError::from)?;
    let row = archive.get(&ItemKey::question(&location.team, &location.channel, &args.ts)).await?;
    let Some((question, row)) = row.and_then(|row| Some((QuestionRow::read(&row)?, row))) else {
        let shown = plain::excerpt(&args.channel, 80);
        bail!("no question {} in channel {shown}: `annalist questions list` shows them", args.ts);
    };
    Ok(with_answer(archive, question, row).await?)
}

async fn with_answer(
    archive: &dyn Archive,
    question: QuestionRow,
    row: Item,
) -> Result<FoundQuestion, ArchiveError> {
    let QuestionId { team, channel, ts, .. } = &question.id;
    let answer = archive.get(&ItemKey::answer(team, channel, ts)).await?;
    let answer = answer.and_then(|row| Some((AnswerRow::read(&row)?, row)));
    Ok(FoundQuestion { question, row, answer })
}

impl FoundQuestion {
    fn json(&self) -> Value {
        let QuestionRow { id, content: asked, state, fetched_at_s, is_counted: _ } = &self.question;
        let answer = self.answer.as_ref().map(|(answer, row)| {
            let posted = answer.posted().into_iter().map(|ts| ts.to_string());
            json!({
                "status": TrackedKind::Answer.label(answer.state.stage),
                "retry_count": answer.retry_count(),
                "sent_at": time(row, "sent_at"),
                "error_message": row.text(rows::ERROR),
                "posted": posted.collect::<Vec<_>>(),
                "text": answer.text,
            })
        });
        json!({
            "message_id": id.ts.as_str(),
            "team_id": id.team.as_str(),
            "channel_id": id.channel.as_str(),
            "channel_name": rows::channel_name(&self.row),
            "thread_ts": id.thread_ts.as_str(),
            "user_id": asked.user.as_str(),
            "text": asked.text,
            "status": TrackedKind::Question.label(state.stage),
            "fetched_at": rfc3339(*fetched_at_s),
            "processed_at": time(&self.row, "processed_at"),
            "error_message": self.row.text(rows::ERROR),
            "retries": state.generation,
            "answer": answer,
        })
    }

    fn channel(&self) -> String {
        plain::channel_label(rows::channel_name(&self.row), &self.question.id.channel, 80)
    }

    /// Returns the state of the question and of its answer.
    fn state(&self) -> String {
        let stage = TrackedKind::Question.label(self.question.state.stage);
        match &self.answer {
            Some((answer, _)) => format!("{stage}, answer {}", TrackedKind::Answer.label(answer.state.stage)),
            None => stage.to_owned(),
        }
    }

    fn errors(&self) -> impl Iterator<Item = &str> {
        let answer = self.answer.as_ref().map(|(_, row)| row);
        [Some(&self.row), answer].into_iter().flatten().filter_map(|row| row.text(rows::ERROR))
    }
}

fn time(row: &Item, name: &str) -> Option<String> {
    Some(rfc3339(row.attributes.get(name)?.as_i64()?))
}

fn rfc3339(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

fn line(found: &FoundQuestion, zone: &Zone, out: &mut dyn Write) -> std::io::Result<()> {
    let QuestionRow { id, content: asked, .. } = &found.question;
    let (time, channel, state) = (zone.time(id.ts.as_str()), found.channel(), found.state());
    writeln!(out, "{time}  {channel}  {}  {}  {state}", id.ts, asked.user)?;
    writeln!(out, "    {}", plain::excerpt(&asked.text, MAX_SHOWN))?;
    for error in found.errors() {
        writeln!(out, "    {}", plain::excerpt(error, 300))?;
    }
    Ok(())
}

fn show(found: &FoundQuestion, zone: &Zone, out: &mut dyn Write) -> std::io::Result<()> {
    let QuestionRow { id, content: asked, .. } = &found.question;
    writeln!(out, "{}  {}  {}  {}", zone.time(id.ts.as_str()), found.channel(), asked.user, found.state())?;
    for text in plain::lines(&asked.text) {
        writeln!(out, "    {text}")?;
    }
    for error in found.errors() {
        writeln!(out, "Error: {}", plain::line(error))?;
    }
    if let Some((answer, _)) = &found.answer {
        let posted = answer.posted();
        writeln!(out, "Answer ({} posted):", plain::counted(posted.len(), "message", "messages"))?;
        for text in plain::lines(&answer.text) {
            writeln!(out, "    {text}")?;
        }
    }
    Ok(())
}

/// Restarts a question and sends its job.
async fn retry(
    backend: &Backend,
    clock: &dyn Clock,
    found: &FoundQuestion,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let id = &found.question.id;
    if found.answer.as_ref().is_some_and(|(answer, _)| answer.state.stage == WorkStage::Finished) {
        writeln!(out, "{} was already answered; nothing changes.", id.ts)?;
        return Ok(());
    }
    let state = found.question.state.next_generation();
    let update = rows::question_state_update(id, state, None, clock.now().seconds());
    backend.archive().write(&update).await?;
    let job = QuestionJob { id: id.clone(), content: None, attempt: state.generation };
    backend.queue().send(vec![job.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;
    Ok(writeln!(out, "{} is asked again; a running responder answers it.", id.ts)?)
}

/// Cancels a question, so that nothing more is posted.
async fn cancel(
    archive: &dyn Archive,
    clock: &dyn Clock,
    found: &FoundQuestion,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (id, now_s, why) = (&found.question.id, clock.now().seconds(), Some("question cancelled"));
    if found.answer.as_ref().is_some_and(|(answer, _)| answer.state.stage == WorkStage::Finished) {
        bail!("{} was answered already: delete the answer in Slack", id.ts);
    }
    // A new generation, so that a responder that works on the current one writes nothing more.
    let state = found.question.state.next_generation().with_stage(WorkStage::Failed);
    archive.write(&rows::question_state_update(id, state, why, now_s)).await?;
    if let Some((answer, _)) = &found.answer {
        let failed = answer.state.with_stage(WorkStage::Failed);
        archive.write(&rows::answer_state_update(id, failed, why, now_s)).await?;
    }
    Ok(writeln!(out, "{} is not answered.", id.ts)?)
}

#[cfg(test)]
mod tests {
    use ports::queue::QueueName;
    use rules::question::QuestionText;
    use slack::ids::{ChannelId, Ts, UserId};

    use super::*;
    use crate::fixture::{CliFixture, message_args};

    #[tokio::test]
    async fn each_retry_sends_a_job_even_right_after_the_last_one() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "why?").await;
        let ts = Ts::parse("1700000001.000000").unwrap();
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let id = QuestionId { team, channel, ts: ts.clone(), thread_ts: ts };
        let (user, text) = (UserId::parse("U1").unwrap(), "why?".to_owned());
        let asked = QuestionText { user, text, mentioned: None, files: Vec::new() };
        fixture.archive().write(&rows::asked(&id, &asked, None, 0)).await.unwrap();
        let retry = QuestionsCommand::Retry(message_args("C1", "1700000001.000000"));
        for sent in 1..=3 {
            run(&fixture.backend, fixture.clock(), &retry, &mut Vec::new()).await.unwrap();
            assert_eq!(fixture.ports.queue.depth(QueueName::Questions.into()).await.unwrap().waiting, sent);
        }
    }
}

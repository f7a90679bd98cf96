//! Work that no queue delivers: questions and answers that a person has reset, and rows that were finished
//! long ago.

use ports::archive::{Item, Query, key};
use ports::queue::Outgoing;
use reader::find;
use rules::question::job::{QuestionJob, ReplyJob};
use rules::question::rows::{AnswerRow, QuestionRow, is_done_before};
use rules::question::state::WorkStage;
use rules::question::{budget, state::WorkState};

use super::Responder;
use crate::failure::PortError;

/// Rows read in one query.
const PAGE: usize = 1_000;

/// How long a question and its answer are kept after they are finished. The row that records that it was
/// answered is kept permanently.
const KEPT_S: i64 = 30 * 24 * 3_600;

impl Responder {
    /// Checks the rows of every workspace.
    pub(super) async fn sweep(&self) -> Result<(), PortError> {
        let archive = &*self.ports.archive;
        let now_s = self.now_s();
        let is_reset = |state: WorkState| state.generation > 0 && state.stage == WorkStage::Pending;
        for team in find::teams(archive).await? {
            self.sweep_partition(
                key::questions(&team),
                |row| {
                    let question = QuestionRow::read(row).filter(|question| is_reset(question.state))?;
                    let attempt = question.state.generation;
                    Some(QuestionJob { id: question.id, content: None, attempt }.outgoing())
                },
                |row| is_done_before(row, now_s - KEPT_S),
            )
            .await?;
            self.sweep_partition(
                key::answers(&team),
                |row| {
                    let answer = AnswerRow::read(row).filter(|answer| is_reset(answer.state))?;
                    Some(ReplyJob { id: answer.id, attempt: answer.state.generation }.outgoing())
                },
                |row| is_done_before(row, now_s - KEPT_S),
            )
            .await?;
            self.sweep_partition(key::budgets(&team), |_| None, |row| budget::is_over(row, now_s)).await?;
        }
        Ok(())
    }

    /// Sends a job for each row that needs one, and removes each row that is no longer needed.
    async fn sweep_partition(
        &self,
        partition: String,
        job: impl Fn(&Item) -> Option<Outgoing> + Send,
        is_removable: impl Fn(&Item) -> bool + Send,
    ) -> Result<(), PortError> {
        let archive = &*self.ports.archive;
        let mut query = Query { limit: PAGE, ..Query::partition(partition) };
        loop {
            let page = archive.query(&query).await?;
            let jobs: Vec<Outgoing> = page.items.iter().filter_map(&job).collect();
            if !jobs.is_empty() {
                tracing::info!(jobs = jobs.len(), "requeued questions and replies that were reset");
                self.ports.queue.send(jobs).await.into_iter().collect::<Result<(), _>>()?;
            }
            let removable: Vec<&Item> = page.items.iter().filter(|row| is_removable(row)).collect();
            for row in removable {
                archive.delete_unchanged(row).await?;
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

//! Removes jobs that carry erased content: those in quarantine, and those that wait aside.

use ports::archive::erasure::ErasureFacts;

use super::cover::{JobCover, cover_of};
use super::{Eraser, EraserCounts};
use crate::failure::PortError;
use crate::quarantine::{self, Quarantined};

impl Eraser<'_> {
    /// Removes the jobs in quarantine and aside that carry erased content. If a job also carries other content, a gap
    /// records its loss.
    pub(super) async fn quarantine(&self) -> Result<EraserCounts, PortError> {
        let at_any_time = [&self.facts[..], self.ahead.job_facts()].concat();
        let covered_at_any_time: ErasureFacts = at_any_time.iter().collect();
        let cover = |job: &Quarantined| match self.ahead.quarantined.contains(&job.id) {
            true => cover_of(&job.payload, &at_any_time, &covered_at_any_time),
            false => cover_of(&job.payload, &self.facts, &self.covered),
        };
        self.quarantine_of(cover).await
    }

    /// Removes the jobs in quarantine and aside of which a part is covered.
    pub(super) async fn quarantine_of(
        &self,
        cover: impl Fn(&Quarantined) -> JobCover,
    ) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        for (queue, partition) in quarantine::partitions(self.archive).await? {
            let mut after = None;
            loop {
                let (jobs, next) =
                    quarantine::read_page_of(self.archive, queue, partition.clone(), after).await?;
                counts.rows_read += jobs.len() as u64;
                for job in &jobs {
                    let cover = cover(job);
                    if cover == JobCover::Free {
                        continue;
                    }
                    counts.quarantined += 1;
                    if self.acts() {
                        // If the job has changed, its handler failed once more; another erasure finds it.
                        match cover {
                            JobCover::All => quarantine::remove(self.archive, job).await?,
                            JobCover::Some | JobCover::Free => quarantine::discard(self.archive, job).await?,
                        };
                    }
                }
                match next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(counts)
    }
}

//! Keeps erased content out of quarantine: a job that was sent before an erasure may fail after it.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::erasure::{ErasureFact, ErasureFacts, covered_team};
use ports::archive::{Archive, ArchiveError, Attributes, Item, ItemKey, Query, key, query_all};
use ports::queue::job::Job;
use ports::queue::{Delivery, QueueRef};
use rules::{SlackEvent, version};
use slack::envelope::Envelope;
use slack::ids::TeamId;

use super::{Quarantined, partition, write_loss};
use crate::eraser::{JobCover, cover_of, cover_of_content};
use crate::runtime::updates_of;

/// Whether each of these jobs carries erased content, so that it gets no row. If a job also carries other
/// content, a gap records its loss.
pub(super) async fn drop_erased(
    archive: &dyn Archive,
    queue: QueueRef,
    jobs: &[(&Delivery, &str)],
) -> Result<Vec<bool>, ArchiveError> {
    let mut facts: BTreeMap<TeamId, (Vec<ErasureFact>, ErasureFacts)> = BTreeMap::new();
    let mut dropped = Vec::with_capacity(jobs.len());
    for (delivery, _) in jobs {
        let (mut of_job, mut removed) = (Vec::new(), Vec::new());
        for team in teams_of(&delivery.body) {
            if !facts.contains_key(&team) {
                let rows = query_all(archive, Query::partition(key::erasures(&team))).await?;
                let erased = rows.iter().filter_map(ErasureFact::read).collect();
                facts.insert(team.clone(), (erased, ErasureFacts::from_rows(&rows)));
            }
            let Some((erased, all)) = facts.get(&team) else { continue };
            of_job.extend(erased.iter().cloned());
            removed.push(cover_of_content(&delivery.body, all));
        }
        let cover = removed.into_iter().find(|cover| *cover != JobCover::Free);
        let cover = cover.unwrap_or_else(|| self::cover(delivery, of_job));
        if cover == JobCover::Some {
            write_loss(archive, &as_quarantined(queue, delivery)).await?;
        }
        dropped.push(cover != JobCover::Free);
    }
    Ok(dropped)
}

fn cover(delivery: &Delivery, facts: Vec<ErasureFact>) -> JobCover {
    let covered: ErasureFacts = facts.iter().collect();
    if updates_of(&delivery.body).is_some() {
        return cover_of(&delivery.body, &facts, &covered);
    }
    // The rows of this job are unknown, and so are their times. What was sent after an erasure is kept.
    let sent_micros = sent_micros(delivery);
    let later: Vec<ErasureFact> =
        facts.into_iter().filter(|fact| fact.until.micros() > sent_micros).collect();
    cover_of(&delivery.body, &later, &covered)
}

/// The workspaces whose facts may cover a job.
fn teams_of(body: &str) -> BTreeSet<TeamId> {
    let updates = updates_of(body).unwrap_or_default();
    let named = updates.iter().filter_map(|update| covered_team(&update.key));
    let workspace = Job::decode(body).ok().and_then(|job| {
        let raw = job.event()?;
        Envelope::peek(raw.get().as_bytes()).ok()?.workspace()
    });
    named.chain(workspace).collect()
}

/// When Slack sent the event of a job, or otherwise when the job was sent.
fn sent_micros(delivery: &Delivery) -> i64 {
    let clock = || {
        let job = Job::decode(&delivery.body).ok()?;
        let envelope = Envelope::peek(job.event()?.get().as_bytes()).ok()?;
        let clock = SlackEvent::read(&envelope).ok()?.clock();
        (clock != version::zero()).then(|| clock.micros())
    };
    clock().unwrap_or_else(|| delivery.sent_at.0.saturating_mul(1_000))
}

/// The job as its row would be.
fn as_quarantined(queue: QueueRef, delivery: &Delivery) -> Quarantined {
    Quarantined {
        id: String::new(),
        queue: queue.name,
        group: delivery.group.as_str().to_owned(),
        reason: String::new(),
        attempts: u64::from(delivery.receive_count),
        first_seen: delivery.sent_at,
        last_seen: delivery.sent_at,
        payload: delivery.body.clone(),
        item: Item { key: ItemKey::new(partition(queue.name), ""), attributes: Attributes::new() },
    }
}

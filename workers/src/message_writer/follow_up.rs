//! Jobs for other workers that follow from an event.
//!
//! They derive from the event alone and are sent after its rows are written and before it is acked, even if
//! the write changed nothing: redelivery recovers from a crash in between. A repeated follow-up is harmless.

use metrics::counter;
use ports::metrics::FILES_SKIPPED;
use ports::queue::{Outgoing, Queue, route};
use rules::channel::event::channel_change;
use rules::{Change, SlackEvent, file};
use slack::catalogue::EventRule;
use slack::envelope::Envelope;

use crate::runtime::BatchJob;

/// The follow-ups of a stored event and its changes; `body` is the request that carried the event.
pub(super) fn for_event(
    event: &SlackEvent<'_>,
    envelope: &Envelope<'_>,
    body: &str,
    changes: &[Change],
) -> Vec<Outgoing> {
    let mut follow_ups = Vec::new();
    for change in changes {
        match change {
            Change::Content(content) => {
                let file::Jobs { sends, skipped } = file::jobs(content);
                if skipped > 0 {
                    counter!(FILES_SKIPPED).increment(skipped.try_into().unwrap_or(u64::MAX));
                }
                follow_ups.extend(sends);
            }
            Change::Register(update) => follow_ups.extend(file::image::job(update)),
        }
    }
    if event.rule() == Some(EventRule::Message) && channel_change(event).is_some() {
        follow_ups.push(route::channels_message(&event.team, envelope, body));
    }
    follow_ups
}

/// Sends the follow-ups of many jobs, and settles each job whose follow-ups were sent.
pub(super) async fn send<'b>(queue: &dyn Queue, jobs: Vec<(&'b BatchJob<'b>, Vec<Outgoing>)>) {
    let counts: Vec<(&BatchJob<'_>, usize)> =
        jobs.iter().map(|(job, follow_ups)| (*job, follow_ups.len())).collect();
    let messages: Vec<Outgoing> = jobs.into_iter().flat_map(|(_, follow_ups)| follow_ups).collect();
    let sent = if messages.is_empty() { Vec::new() } else { queue.send(messages).await };
    let mut sent = sent.into_iter();
    for (job, count) in counts {
        job.finish(sent.by_ref().take(count).fold(Ok(()), Result::and));
    }
}

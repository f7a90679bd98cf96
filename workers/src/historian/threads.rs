//! Determines which threads to request. Each costs a call, and Slack permits about fifty a minute, so
//! complete threads are skipped.

use ports::archive::item::WITHHELD;
use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use rules::history::{HistoryMessage, ThreadHead};
use rules::message::{self, stored_version};
use slack::ids::{ChannelId, TeamId, Ts};

/// Whether the archive has every reply that a root counts.
pub(super) async fn is_complete(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    root: &HistoryMessage,
) -> Result<bool, ArchiveError> {
    let Some(head) = &root.thread else { return Ok(true) };
    let rows = query_all(archive, Query::parent(key::thread_parent(team, &root.ts))).await?;
    Ok(is_matching(head, &replies(&rows, channel, &root.ts)))
}

/// The stored replies among the rows of a thread that are not deleted. A parent key contains only the
/// workspace: another channel may have a root with the same ts.
fn replies(rows: &[Item], channel: &ChannelId, root: &Ts) -> Vec<Ts> {
    // Of a withheld reply, only its place is stored.
    let is_stored =
        |row: &&Item| (stored_version(row).is_some() && !row.has_flag("deleted")) || row.has_flag(WITHHELD);
    let in_channel =
        rows.iter().filter(is_stored).filter(|row| message::channel(row) == Some(channel.as_str()));
    in_channel.filter_map(|row| Ts::parse(&row.key.timestamp).ok()).filter(|ts| ts != root).collect()
}

fn is_matching(head: &ThreadHead, replies: &[Ts]) -> bool {
    let latest = head.latest_reply.as_ref();
    replies.len() as u64 == head.reply_count && latest.is_none_or(|latest| replies.contains(latest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_complete_if_its_count_and_its_latest_reply_agree() {
        let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
        let head = |reply_count, latest: i64| ThreadHead { reply_count, latest_reply: Some(ts(latest)) };
        let replies = [ts(2), ts(3)];
        assert!(is_matching(&head(2, 3), &replies));
        assert!(is_matching(&ThreadHead { latest_reply: None, ..head(2, 3) }, &replies));
        // One reply was deleted and another was posted.
        assert!(!is_matching(&head(2, 4), &replies));
        assert!(!is_matching(&head(3, 3), &replies));
        assert!(!is_matching(&head(1, 3), &replies));
    }
}

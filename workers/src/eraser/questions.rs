//! Questions to the responder, their answers, and the posts of the answers.

use std::collections::BTreeSet;

use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{ArchiveError, ArchiveExt, Item, ItemKey, Query, key, query_all};
use rules::question::rows::{question_of, user_of};
use slack::ids::{ChannelId, TeamId, Ts};

use super::{Eraser, EraserCounts};
use crate::failure::PortError;

impl Eraser<'_> {
    /// Erases the covered questions of a workspace, each with its answer and all posts, and the answers with
    /// a covered post. A post names its answer, so posts are erased last.
    pub(super) async fn questions(&self, team: &TeamId) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let posted = self.all(&mut counts, key::bot_messages(team)).await?;
        let covered = posted.iter().filter(|row| self.covered.covers_row(row)).filter_map(question_of);
        // In the form of sort keys.
        let answers_of_posted: BTreeSet<String> =
            covered.map(|(channel, ts)| format!("{channel}#{ts}")).collect();
        for partition in [key::questions(team), key::answers(team), key::responded(team)] {
            let is_question = partition == key::questions(team);
            for row in self.all(&mut counts, partition).await? {
                let is_posted = !is_question && answers_of_posted.contains(&row.key.timestamp);
                if self.covered.covers_row(&row) || (is_posted && !row.is_erased()) {
                    counts.erased(&row);
                    self.erase(&row.key).await?;
                }
            }
        }
        for row in posted.iter().filter(|row| self.covered.covers_row(row) || self.covers_question(team, row))
        {
            counts += self.erase_posted_message(team, row).await?;
            counts.erased(row);
            self.erase(&row.key).await?;
        }
        Ok(counts)
    }

    /// Erases the channel message of a post: Slack reports it like any other message. No fact about the
    /// question covers it, so it gets its own fact, after which it cannot be stored again.
    async fn erase_posted_message(&self, team: &TeamId, row: &Item) -> Result<EraserCounts, PortError> {
        let post = row.key.timestamp.split_once('#');
        let post =
            post.and_then(|(channel, ts)| Some((ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?)));
        let Some((channel, ts)) = post else { return Ok(EraserCounts::default()) };
        let key = ItemKey::message(team, &channel, &ts);
        if self.acts() && !self.covered.covers_content(&key, None) {
            let scope = ErasureScope::Message(channel.clone(), ts.clone());
            let fact = ErasureFact { team: team.clone(), scope, until: ts.clone() };
            self.archive.write(&fact.update()).await?;
        }
        let message = self.archive.get(&key).await?;
        match &message {
            Some(message) => self.message(team, &channel, message).await,
            None => Ok(EraserCounts::default()),
        }
    }

    async fn all(&self, counts: &mut EraserCounts, partition: String) -> Result<Vec<Item>, ArchiveError> {
        let rows = query_all(self.archive, Query::partition(partition)).await?;
        self.read(counts, &rows);
        Ok(rows)
    }

    /// Whether the question of a post is covered.
    fn covers_question(&self, team: &TeamId, row: &Item) -> bool {
        let key = question_of(row).map(|(channel, ts)| ItemKey::question(team, &channel, &ts));
        key.is_some_and(|key| self.covered.covers_content(&key, user_of(row)))
    }
}

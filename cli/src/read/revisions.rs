//! `annalist revisions`: what a message said before its edits.

use std::io::Write;

use shared::archive::key::revisions as partition;
use shared::archive::{Archive, ItemKey, Query};
use shared::rules::project;

use super::printer::Printer;
use super::rows::{Rows, row};
use super::{MessageArgs, ReadError, channel, render};

/// Prints a message's replaced versions, oldest first; as text also the current one.
pub(crate) async fn revisions(
    archive: &dyn Archive,
    args: &MessageArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let place = channel::find(archive, &args.channel, args.read.team.as_ref()).await?;
    let current = row(archive, &ItemKey::message(&place.team, &place.channel, &args.ts)).await?;
    let query = Query::partition(partition(&place.team, &place.channel, &args.ts));
    let mut rows = Rows::all(archive, query, project::message);
    if let Some(limit) = args.read.limit {
        rows.keep_newest(limit.get()).await?;
    }
    let mut printer = Printer::new(archive, place.team, &args.read, out);
    while let Some(page) = rows.next().await? {
        printer.print(&page, render::as_replaced_version).await?;
    }
    match (current, printer.printed()) {
        (None, 0) => Err(ReadError::UnknownMessage { channel: args.channel.clone(), ts: args.ts.clone() }),
        // The current version is no revision; people want to see where the others led to.
        (Some(current), replaced) if !args.read.json => {
            printer.print(&[current], render::as_current_version).await?;
            if replaced == 0 {
                printer.remark("It was never edited: there are no earlier versions.")
            } else {
                Ok(())
            }
        }
        (Some(_) | None, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, message_args};

    async fn printed(fixture: &Fixture, ts: &str, json: bool) -> Result<String, ReadError> {
        let mut args = message_args("C1", ts);
        args.read.json = json;
        let mut out = Vec::new();
        revisions(fixture.archive(), &args, &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn text_shows_the_current_version_last_and_json_only_the_replaced_ones() {
        let fixture = Fixture::open().await;
        fixture.post("T1", "C1", "1.000000", "before").await;
        fixture.edit("T1", "C1", "1.000000", "2.000000", "between").await;
        fixture.edit("T1", "C1", "1.000000", "3.000000", "after").await;
        let text = printed(&fixture, "1.000000", false).await.unwrap();
        let order = ["before", "between", "after"].map(|version| text.find(version).unwrap());
        assert!(order.is_sorted(), "{text}");
        assert!(text.contains("(now)") && text.matches("(replaced)").count() == 2, "{text}");
        let seconds: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("1970-01-01 00:00:0")).collect();
        let starts = seconds.iter().map(|rest| &rest[..1]).collect::<String>();
        assert_eq!(starts, "123", "each version stands at the time of its edit:\n{text}");
        let json = printed(&fixture, "1.000000", true).await.unwrap();
        assert!(json.lines().count() == 2 && !json.contains("after"), "{json}");
    }

    #[tokio::test]
    async fn a_message_that_was_never_edited_says_so_and_an_unknown_one_is_an_error() {
        let fixture = Fixture::open().await;
        fixture.post("T1", "C1", "1.000000", "as it was").await;
        let text = printed(&fixture, "1.000000", false).await.unwrap();
        assert!(text.contains("as it was") && text.contains("never edited"), "{text}");
        assert_eq!(printed(&fixture, "1.000000", true).await.unwrap(), "");
        assert!(matches!(printed(&fixture, "2.000000", true).await, Err(ReadError::UnknownMessage { .. })));
    }
}

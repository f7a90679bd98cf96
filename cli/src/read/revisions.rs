//! `annalist revisions`: prints the earlier versions of a message.

use std::io::Write;

use ports::archive::{Archive, Item};
use reader::find;
use rules::message::{self, Versions};
use rules::project;
use rules::view::MessageView;
use slack::ids::Ts;

use super::printer::MessagePrinter;
use super::{MessageArgs, ReadError, render};

/// Prints the earlier versions of a message, oldest first. Text output ends with the current version.
pub(crate) async fn revisions(
    archive: &dyn Archive,
    args: &MessageArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let channel = find::find_channel(archive, &args.channel, args.read.team.as_ref()).await?;
    let current = channel.message(&args.ts).await?;
    // All revisions are read, because their number is unlimited and the limit applies to replaced versions.
    let rows = channel.revisions(&args.ts).await?;
    let Versions { replaced, since } = message::versions(&rows, current.as_ref());
    let surplus = args.read.limit.map_or(0, |limit| replaced.len().saturating_sub(limit.get()));
    let replaced: Vec<MessageView> = replaced[surplus..]
        .iter()
        .filter_map(|version| version_at(version.row, &version.clock, args))
        .collect();
    let current = current.and_then(|current| version_at(&current, &since, args));
    let mut printer = MessagePrinter::new(archive, &channel, &args.read, out);
    if args.with_names {
        printer = printer.with_names(archive, &channel);
    }
    printer.print(&replaced, render::as_replaced_version).await?;
    match (current, printer.printed()) {
        (None, 0) => Err(ReadError::UnknownMessage { channel: args.channel.clone(), ts: args.ts.clone() }),
        // The current version is not a revision, but people want to see the final text.
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

/// Returns a version for readers. Slack marks only edits with their time. In text output, another change has
/// the time of Slack's event.
fn version_at(row: &Item, clock: &Ts, args: &MessageArgs) -> Option<MessageView> {
    let mut version = project::message(row)?;
    if !args.read.json && !version.is_edited() && *clock > args.ts {
        version.json_mut()["updated_ts"] = message::rfc3339(clock).into();
    }
    Some(version)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{CliFixture, message_args, output};

    async fn printed(fixture: &CliFixture, ts: &str, json: bool) -> Result<String, ReadError> {
        let mut args = message_args("C1", ts);
        args.read.json = json;
        output(async |out| revisions(fixture.archive(), &args, out).await).await
    }

    #[tokio::test]
    async fn text_shows_the_current_version_last_and_json_only_the_replaced_ones() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "before").await;
        fixture.edit("T1", "C1", "1700000001.000000", "1700000002.000000", "between").await;
        fixture.edit("T1", "C1", "1700000001.000000", "1700000003.000000", "after").await;
        let text = printed(&fixture, "1700000001.000000", false).await.unwrap();
        let order = ["before", "between", "after"].map(|version| text.find(version).unwrap());
        assert!(order.is_sorted(), "{text}");
        assert!(text.contains("(now)") && text.matches("(replaced)").count() == 2, "{text}");
        let seconds: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("2023-11-14 22:13:2")).collect();
        let starts = seconds.iter().map(|rest| &rest[..1]).collect::<String>();
        assert_eq!(starts, "123", "each version has the time of its edit:\n{text}");
        let json = printed(&fixture, "1700000001.000000", true).await.unwrap();
        assert!(json.lines().count() == 2 && !json.contains("after"), "{json}");
    }

    #[tokio::test]
    async fn content_that_was_replaced_under_another_id_is_an_earlier_version() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "before").await;
        fixture.channel("T1", "C1", "1700000001.000000", "partners").await;
        fixture.channel_id_changed("T1", "C1", "C2", "1700000002.000000").await;
        fixture.edit("T1", "C2", "1700000001.000000", "1700000003.000000", "after").await;
        let text = printed(&fixture, "1700000001.000000", false).await.unwrap();
        assert!(text.find("before").unwrap() < text.find("after").unwrap(), "{text}");
        let json = printed(&fixture, "1700000001.000000", true).await.unwrap();
        assert!(json.lines().count() == 1 && json.contains("before"), "{json}");
    }

    #[tokio::test]
    async fn an_unedited_message_prints_a_notice_and_an_unknown_one_is_an_error() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "as it was").await;
        let text = printed(&fixture, "1700000001.000000", false).await.unwrap();
        assert!(text.contains("as it was") && text.contains("never edited"), "{text}");
        assert_eq!(printed(&fixture, "1700000001.000000", true).await.unwrap(), "");
        assert!(matches!(
            printed(&fixture, "1700000002.000000", true).await,
            Err(ReadError::UnknownMessage { .. })
        ));
    }

    #[tokio::test]
    async fn changes_without_an_edit_are_versions_and_link_previews_are_not() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "10%").await;
        fixture.change("T1", "C1", "1700000001.000000", "1700000002.000000", json!({ "text": "50%" })).await;
        fixture.change("T1", "C1", "1700000001.000000", "1700000003.000000", json!({ "text": "10%" })).await;
        fixture.change("T1", "C1", "1700000001.000000", "1700000004.000000", json!({ "text": "done" })).await;
        let preview = json!({ "text": "done", "attachments": [{ "id": 1 }] });
        fixture.change("T1", "C1", "1700000001.000000", "1700000005.000000", preview).await;
        let text = printed(&fixture, "1700000001.000000", false).await.unwrap();
        let versions: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.strip_prefix("2023-11-14 22:13:2"))
            .map(|rest| &rest[..1])
            .zip(text.lines().filter_map(|line| line.strip_prefix("    ")))
            .collect();
        assert_eq!(versions, [("1", "10%"), ("2", "50%"), ("3", "10%"), ("4", "done")], "{text}");
        assert!(!text.contains("never edited"), "{text}");
        let json = printed(&fixture, "1700000001.000000", true).await.unwrap();
        assert!(json.lines().count() == 3 && !json.contains("done") && !json.contains("seen#"), "{json}");
    }

    #[tokio::test]
    async fn a_limit_keeps_the_newest() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "a").await;
        for (clock, text) in
            [("1700000002.000000", "b"), ("1700000003.000000", "c"), ("1700000004.000000", "d")]
        {
            fixture.edit("T1", "C1", "1700000001.000000", clock, text).await;
        }
        let mut args = message_args("C1", "1700000001.000000");
        args.read.limit = std::num::NonZeroUsize::new(2);
        let lines = output(async |out| revisions(fixture.archive(), &args, out).await).await.unwrap();
        let texts: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].clone()).collect();
        assert_eq!(texts, ["b", "c"]);
    }
}

//! `annalist messages`: prints the messages of a channel.

use std::io::Write;

use ports::archive::{Archive, Item, Query};
use reader::figures::message::{self, ThreadFigures};
use reader::find;
use reader::rows::VisibleRows;
use rules::project;

use super::printer::MessagePrinter;
use super::threads::InlineThreads;
use super::{MessagesArgs, ReadError, range, render};
use crate::zone::Zone;

/// Prints a channel's messages, oldest first. As JSON or with `--flat`, all messages are sorted by time;
/// otherwise replies follow their roots.
pub(crate) async fn messages(
    archive: &dyn Archive,
    args: &MessagesArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let read = &args.channel.read;
    let channel = find::find_channel(archive, &args.channel.channel, read.team.as_ref()).await?;
    let zone = Zone::from_args(&read.zone);
    let mut range = range::range_between(args.since.as_ref(), args.until.as_ref(), zone.time_zone())?;
    let with_figures = args.figures;
    let project =
        move |row: &Item| if with_figures { message::with_own_figures(row) } else { project::message(row) };
    let mut rows =
        VisibleRows::all(&channel, Query::partition(channel.current_location().messages()), project)
            .within(&range);
    if let Some(limit) = read.limit {
        rows.keep_newest(limit.get()).await?;
    }
    let mut printer = MessagePrinter::new(archive, &channel, read, out);
    if args.with_names {
        printer = printer.with_names(archive, &channel);
    }
    if read.json || args.flat {
        let mut threads = ThreadFigures::new(&channel);
        while let Some(mut page) = rows.next().await? {
            if args.figures {
                for message in &mut page {
                    threads.add(message).await?;
                }
            }
            printer.print(&page, render::in_channel).await?;
        }
    } else {
        range.start_after(rows.after());
        let mut threads = InlineThreads::new(&channel, range.clone());
        while let Some(page) = rows.next().await? {
            threads.print(&page, &mut printer).await?;
        }
    }
    if printer.printed() == 0 {
        printer.remark(if range.is_bounded() {
            "No messages in that range."
        } else {
            "No messages are stored of this channel: `annalist backfill` reads what Slack still shows."
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use serde_json::Value;

    use super::*;
    use crate::fixture::{CliFixture, message_args, output};
    use crate::read::range::TimeBound;
    use crate::read::{ChannelArgs, ReadArgs};

    fn args() -> MessagesArgs {
        let channel =
            ChannelArgs { channel: "C1".into(), read: message_args("C1", "1700000001.000000").read };
        MessagesArgs { channel, since: None, until: None, flat: false, figures: false, with_names: false }
    }

    async fn printed(fixture: &CliFixture, args: &MessagesArgs) -> String {
        output(async |out| messages(fixture.archive(), args, out).await).await.unwrap()
    }

    async fn timestamps_of(fixture: &CliFixture, args: &MessagesArgs) -> Vec<String> {
        let ts = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ts"].as_str().unwrap().to_owned();
        printed(fixture, args).await.lines().map(ts).collect()
    }

    async fn timestamps(fixture: &CliFixture, limit: Option<usize>) -> Vec<String> {
        let mut args = args();
        args.channel.read.limit = limit.and_then(NonZeroUsize::new);
        timestamps_of(fixture, &args).await
    }

    /// Returns the text output without the line that names the zone, and with only the last digit of each
    /// time.
    async fn seen(fixture: &CliFixture, change: impl FnOnce(&mut MessagesArgs)) -> Vec<String> {
        let mut args = args();
        args.channel.read = ReadArgs { json: false, ..args.channel.read };
        change(&mut args);
        let text = printed(fixture, &args).await;
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("Times are in UTC."));
        let without_time =
            |line: &str| line.replacen("2023-11-14 22:30:0", "", 1).replacen(".000000  U1", "", 1);
        lines.map(without_time).collect()
    }

    /// Returns an archive with two threads whose replies alternate, and a further message.
    async fn threads() -> CliFixture {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700001001.000000", "one").await;
        fixture.post("T1", "C1", "1700001002.000000", "two").await;
        fixture.reply("T1", "C1", "1700001003.000000", "1700001001.000000", "to one").await;
        fixture.reply("T1", "C1", "1700001004.000000", "1700001002.000000", "to two").await;
        fixture.reply("T1", "C1", "1700001005.000000", "1700001001.000000", "again to one").await;
        fixture.post("T1", "C1", "1700001006.000000", "three").await;
        fixture.reply("T1", "C2", "1700001005.500000", "1700001001.000000", "of another channel").await;
        fixture
    }

    #[tokio::test]
    async fn replies_are_under_their_root_or_with_flat_sorted_by_time() {
        let fixture = threads().await;
        assert_eq!(
            seen(&fixture, |_| ()).await,
            [
                "1  1700001001 (2 replies)",
                "    one",
                "    3  1700001003",
                "        to one",
                "    5  1700001005",
                "        again to one",
                "2  1700001002 (1 reply)",
                "    two",
                "    4  1700001004",
                "        to two",
                "6  1700001006",
                "    three",
            ]
        );
        let flat = seen(&fixture, |args| args.flat = true).await;
        let heads: Vec<&str> = flat.iter().step_by(2).map(|line| &line[..1]).collect();
        assert_eq!(heads, ["1", "2", "3", "4", "5", "6"]);
        assert_eq!(flat[4], "3  1700001003 (in thread 1700001001.000000)");
    }

    #[tokio::test]
    async fn a_reply_whose_root_is_not_shown_has_its_context() {
        let fixture = threads().await;
        let newest = seen(&fixture, |args| args.channel.read.limit = NonZeroUsize::new(3)).await;
        assert_eq!(
            newest,
            [
                "2  1700001002 (1 reply)",
                "    two",
                "    4  1700001004",
                "        to two",
                "1  1700001001 (2 replies, 1 in this range)",
                "    one",
                "    5  1700001005",
                "        again to one",
                "6  1700001006",
                "    three",
            ]
        );
        let bound = |ts: &str| Some(TimeBound::parse(ts).unwrap());
        let between = seen(&fixture, |args| {
            args.since = bound("1700001002.000000");
            args.until = bound("1700001005.000000");
        })
        .await;
        assert_eq!(
            between,
            [
                "2  1700001002 (1 reply)",
                "    two",
                "    4  1700001004",
                "        to two",
                "1  1700001001 (2 replies, 1 in this range)",
                "    one",
                "    3  1700001003",
                "        to one",
            ]
            .map(str::to_owned)
            .into_iter()
            .collect::<Vec<_>>()
        );
        let orphan = CliFixture::open().await;
        orphan.reply("T1", "C1", "1700001003.000000", "1700001001.000000", "to what").await;
        assert_eq!(
            seen(&orphan, |_| ()).await,
            [
                "In the thread of 1700001001.000000, which is not in this archive:",
                "    3  1700001003",
                "        to what"
            ]
        );
    }

    #[tokio::test]
    async fn a_time_range_has_its_beginning_and_not_its_end() {
        let fixture = CliFixture::open().await;
        let all: Vec<String> =
            (1_795_132_800..1_795_133_400).map(|second| format!("{second}.000000")).collect();
        for ts in &all {
            fixture.post("T1", "C1", ts, "text").await;
        }
        let between = async |since: Option<&str>, until: Option<&str>, limit: Option<usize>| {
            let bound = |text: &str| TimeBound::parse(text).unwrap();
            let mut args = MessagesArgs { since: since.map(bound), until: until.map(bound), ..args() };
            args.channel.read.limit = limit.and_then(NonZeroUsize::new);
            timestamps_of(&fixture, &args).await
        };
        // The first message is at midnight.
        assert_eq!(between(Some("2026-11-20"), Some("2026-11-21"), None).await, all);
        assert!(between(None, Some("2026-11-20"), None).await.is_empty());
        assert!(between(Some("2026-11-21"), None, None).await.is_empty());
        let (since, until) = (Some("2026-11-20T00:01"), Some("2026-11-20T00:09:00Z"));
        assert_eq!(between(since, until, None).await, all[60..540]);
        assert_eq!(between(since, until, Some(10)).await, all[530..540]);
        assert_eq!(between(since, until, Some(999)).await, all[60..540]);
        assert_eq!(between(since, None, Some(999)).await, all[60..]);
        assert_eq!(between(Some(&all[3]), Some(&all[5]), None).await, all[3..5]);
        let bound = |ts: &String| TimeBound::parse(ts).ok();
        let backwards = MessagesArgs { since: bound(&all[5]), until: bound(&all[3]), ..args() };
        let refused = messages(fixture.archive(), &backwards, &mut Vec::new()).await;
        assert!(matches!(refused, Err(ReadError::EmptyRange(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_channel_with_several_ids_and_workspaces_is_one_history_under_every_name() {
        let fixture = CliFixture::open().await;
        let all: Vec<String> =
            (1_700_001_000..1_700_001_700).map(|second| format!("{second}.000000")).collect();
        for (n, ts) in all.iter().enumerate() {
            let locations = [("T1", "C1"), ("T1", "C2"), ("T2", "C2")];
            fixture.post(locations[n % 3].0, locations[n % 3].1, ts, "text").await;
            if n % 7 == 0 {
                fixture.post(locations[(n + 1) % 3].0, locations[(n + 1) % 3].1, ts, "text").await;
            }
        }
        fixture.channel("T1", "C1", "1700000001.000000", "partners").await;
        fixture.channel_id_changed("T1", "C1", "C2", "1700000002.000000").await;
        fixture.edit("T1", "C2", "1700001000.000000", "1700002000.000000", "edited under the new id").await;
        for channel in ["C1", "C2", "#partners"] {
            for limit in [None, Some(1), Some(256), Some(300), Some(700), Some(9999)] {
                let mut args = args();
                args.channel.channel = channel.into();
                args.channel.read.limit = limit.and_then(NonZeroUsize::new);
                let first = all.len().saturating_sub(limit.unwrap_or(usize::MAX));
                assert_eq!(timestamps_of(&fixture, &args).await, all[first..], "{channel} {limit:?}");
            }
        }
        let first = printed(&fixture, &args()).await.lines().next().unwrap().to_owned();
        let first: Value = serde_json::from_str(&first).unwrap();
        assert_eq!((&first["text"], &first["channel_id"]), (&"edited under the new id".into(), &"C2".into()));
    }

    #[tokio::test]
    async fn many_pages_are_printed_oldest_first_and_a_limit_keeps_the_newest() {
        let fixture = CliFixture::open().await;
        let expected: Vec<String> =
            (1_700_001_000..1_700_001_600).map(|second| format!("{second}.000000")).collect();
        for ts in expected.iter().rev() {
            fixture.post("T1", "C1", ts, "text").await;
        }
        assert_eq!(timestamps(&fixture, None).await, expected);
        assert_eq!(timestamps(&fixture, Some(5)).await, expected[595..]);
        assert_eq!(timestamps(&fixture, Some(300)).await, expected[300..]);
        assert_eq!(timestamps(&fixture, Some(600)).await, expected);
        assert_eq!(timestamps(&fixture, Some(9999)).await, expected);
    }

    #[tokio::test]
    async fn figures_match_channelstats() {
        let fixture = threads().await;
        let long = "ä ".repeat(20_000);
        fixture.post("T1", "C1", "1700001007.000000", &long).await;
        fixture.post("T1", "C1", "1700001008.000000", "<@U2>, ask <@U1> or <@U3|bo>").await;
        let lines = printed(&fixture, &MessagesArgs { figures: true, ..args() }).await;
        let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let fields_of = |index: usize, names: &[&str]| {
            names.iter().map(|name| rows[index][name].clone()).collect::<Value>()
        };
        let thread = ["parent_user_id", "replies", "reply_count", "is_threadhead", "is_threaded"];
        let replies = "U1:1700001003.000000,U1:1700001005.000000";
        assert_eq!(fields_of(0, &thread), serde_json::json!(["U1", replies, 2, true, true]));
        assert_eq!(fields_of(2, &thread), serde_json::json!(["U1", "", 0, false, true]));
        assert_eq!(fields_of(5, &thread), serde_json::json!([null, "", 0, false, false]));
        let own = ["cid_ts", "date", "word_count", "mentions", "reactions_text", "reaction_count"];
        assert_eq!(
            fields_of(6, &own),
            serde_json::json!(["C1_1700001007.000000", "2023-11-14", 20_000, "", "", 0])
        );
        assert_eq!(fields_of(7, &own)[3], "U2:U3");
        assert!(rows.iter().all(|row| row["text"].is_string()), "figures are added to the other fields");
    }
}

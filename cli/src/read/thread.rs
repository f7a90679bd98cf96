//! `annalist thread`: prints a root and its replies.

use std::io::Write;

use ports::archive::Archive;
use reader::find;
use reader::rows::read_root;
use reader::thread::replies;
use rules::view::MessageView;

use super::printer::MessagePrinter;
use super::render::MessageLayout;
use super::{MessageArgs, ReadError};

/// Prints a thread, root first.
pub(crate) async fn thread(
    archive: &dyn Archive,
    args: &MessageArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let channel = find::find_channel(archive, &args.channel, args.read.team.as_ref()).await?;
    let requested = read_root(&channel, &args.ts).await?;
    let thread_ts = requested.as_ref().and_then(MessageView::root_ts);
    let first_ts = thread_ts.or_else(|| args.thread_ts.clone()).unwrap_or_else(|| args.ts.clone());
    let mut root = if first_ts == args.ts { requested } else { read_root(&channel, &first_ts).await? };

    let mut replies = replies(&channel, &first_ts);
    if let Some(until) = &args.until {
        replies = replies.before(until);
        root = root.filter(|_| first_ts < *until);
    }
    if let Some(limit) = args.read.limit {
        let found = replies.keep_newest(limit.get()).await?;
        root = root.filter(|_| found < limit.get());
    }

    let mut printer = MessagePrinter::new(archive, &channel, &args.read, out);
    if args.with_names {
        printer = printer.with_names(archive, &channel);
    }
    printer.print(root.as_slice(), |_| MessageLayout::default()).await?;
    while let Some(page) = replies.next().await? {
        printer.print(&page, |_| MessageLayout { indent: 4, ..MessageLayout::default() }).await?;
    }
    match printer.printed() {
        0 => Err(ReadError::UnknownMessage { channel: args.channel.clone(), ts: args.ts.clone() }),
        1 if root.is_some() && args.read.limit.is_none() => {
            printer.remark("It has no replies in this archive.")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use ports::archive::erasure::ExpiryFact;
    use ports::archive::{ArchiveExt, ItemKey};
    use rules::project::EXPIRED_TEXT;
    use serde_json::Value;
    use slack::ids::{ChannelId, TeamId, Ts};

    use super::*;
    use crate::fixture::{CliFixture, message_args, output};

    async fn seen(fixture: &CliFixture, args: &MessageArgs) -> Vec<String> {
        let lines = output(async |out| thread(fixture.archive(), args, out).await).await.unwrap();
        let ts = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ts"].as_str().unwrap().to_owned();
        lines.lines().map(ts).collect()
    }

    #[tokio::test]
    async fn a_thread_is_found_by_its_root_and_by_any_reply() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "root").await;
        fixture.reply("T1", "C1", "1700000002.000000", "1700000001.000000", "first").await;
        fixture.reply("T1", "C1", "1700000003.000000", "1700000001.000000", "second").await;
        fixture
            .reply("T1", "C2", "1700000002.500000", "1700000001.000000", "of another channel's thread")
            .await;
        for ts in ["1700000001.000000", "1700000002.000000", "1700000003.000000"] {
            assert_eq!(
                seen(&fixture, &message_args("C1", ts)).await,
                ["1700000001.000000", "1700000002.000000", "1700000003.000000"]
            );
        }
        // The archive lacks the root of this thread.
        assert_eq!(seen(&fixture, &message_args("C2", "1700000001.000000")).await, ["1700000002.500000"]);
    }

    #[tokio::test]
    async fn a_root_that_has_expired_is_a_line_above_its_replies() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "secret").await;
        fixture.reply("T1", "C1", "1700000003.000000", "1700000001.000000", "kept").await;
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let until = Ts::parse("1700000002.000000").unwrap();
        fixture.archive().write(&ExpiryFact::expire(&team, None, &until)).await.unwrap();
        let root = Ts::parse("1700000001.000000").unwrap();
        fixture.archive().expire(&ItemKey::message(&team, &channel, &root)).await.unwrap();
        let mut args = message_args("C1", "1700000003.000000");
        args.read.json = false;
        let text = output(async |out| thread(fixture.archive(), &args, out).await).await.unwrap();
        assert!(text.contains(EXPIRED_TEXT) && text.contains("kept") && !text.contains("secret"), "{text}");
    }

    #[tokio::test]
    async fn a_limit_keeps_the_newest() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "root").await;
        fixture.reply("T1", "C1", "1700000002.000000", "1700000001.000000", "first").await;
        fixture.reply("T1", "C1", "1700000003.000000", "1700000001.000000", "second").await;
        for (limit, expected) in [
            (1, &["1700000003.000000"][..]),
            (2, &["1700000002.000000", "1700000003.000000"]),
            (3, &["1700000001.000000", "1700000002.000000", "1700000003.000000"]),
        ] {
            let mut args = message_args("C1", "1700000001.000000");
            args.read.limit = NonZeroUsize::new(limit);
            assert_eq!(seen(&fixture, &args).await, expected);
        }
    }

    #[tokio::test]
    async fn a_thread_continues_under_another_id_and_in_another_workspace() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "root").await;
        fixture.reply("T1", "C1", "1700000002.000000", "1700000001.000000", "under the old id").await;
        fixture.channel("T1", "C1", "1700000001.000000", "partners").await;
        fixture.channel_id_changed("T1", "C1", "C2", "1700000003.000000").await;
        fixture.reply("T1", "C2", "1700000004.000000", "1700000001.000000", "under the new id").await;
        fixture.reply("T2", "C2", "1700000005.000000", "1700000001.000000", "of the other workspace").await;
        fixture.delete("T1", "C2", "1700000002.000000", "1700000006.000000").await;
        let all = ["1700000001.000000", "1700000002.000000", "1700000004.000000", "1700000005.000000"];
        for channel in ["C1", "C2", "#partners"] {
            for ts in ["1700000001.000000", "1700000004.000000", "1700000005.000000"] {
                assert_eq!(seen(&fixture, &message_args(channel, ts)).await, all, "{channel} {ts}");
            }
        }
        let args = message_args("C1", "1700000001.000000");
        let lines = output(async |out| thread(fixture.archive(), &args, out).await).await.unwrap();
        let reply: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
        assert_eq!((&reply["deleted"], &reply["channel_id"]), (&true.into(), &"C1".into()), "{reply}");
        let mut newest = message_args("C1", "1700000001.000000");
        newest.read.limit = NonZeroUsize::new(2);
        assert_eq!(seen(&fixture, &newest).await, all[2..]);
        newest.read = crate::read::ReadArgs { limit: None, team: "T1".parse().ok(), ..newest.read };
        assert_eq!(seen(&fixture, &newest).await, all[..3], "--team restricts");
    }

    #[tokio::test]
    async fn an_unknown_thread_is_an_error_and_prints_nothing() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "root").await;
        let mut out = Vec::new();
        let error =
            thread(fixture.archive(), &message_args("C1", "1700000009.000000"), &mut out).await.unwrap_err();
        assert!(matches!(error, ReadError::UnknownMessage { .. }), "{error}");
        assert!(out.is_empty());
    }
}

//! `annalist messages`: a channel.

use std::io::Write;

use shared::archive::{Archive, Query};
use shared::rules::project;

use super::printer::Printer;
use super::rows::Rows;
use super::{ChannelArgs, ReadError, channel, render};

/// Prints a channel's messages, oldest first.
pub(crate) async fn messages(
    archive: &dyn Archive,
    args: &ChannelArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let place = channel::find(archive, &args.channel, args.read.team.as_ref()).await?;
    let mut rows = Rows::all(archive, Query::partition(place.messages()), project::message);
    if let Some(limit) = args.read.limit {
        rows.keep_newest(limit.get()).await?;
    }
    let mut printer = Printer::new(archive, place.team, &args.read, out);
    while let Some(page) = rows.next().await? {
        printer.print(&page, render::in_channel).await?;
    }
    if printer.printed() == 0 {
        printer.remark("Nothing but reactions to messages that were never seen.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use serde_json::Value;

    use super::*;
    use crate::fixture::{Fixture, message_args};

    async fn timestamps(fixture: &Fixture, limit: Option<usize>) -> Vec<String> {
        let mut read = message_args("C1", "1.000000").read;
        read.limit = limit.and_then(NonZeroUsize::new);
        let mut out = Vec::new();
        messages(fixture.archive(), &ChannelArgs { channel: "C1".into(), read }, &mut out).await.unwrap();
        let ts = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ts"].as_str().unwrap().to_owned();
        String::from_utf8(out).unwrap().lines().map(ts).collect()
    }

    #[tokio::test]
    async fn everything_is_printed_oldest_first_over_many_pages_and_a_limit_keeps_the_newest() {
        let fixture = Fixture::open().await;
        let expected: Vec<String> = (1000..1600).map(|second| format!("{second}.000000")).collect();
        for ts in expected.iter().rev() {
            fixture.post("T1", "C1", ts, "text").await;
        }
        assert_eq!(timestamps(&fixture, None).await, expected);
        assert_eq!(timestamps(&fixture, Some(5)).await, expected[595..]);
        assert_eq!(timestamps(&fixture, Some(300)).await, expected[300..]);
        assert_eq!(timestamps(&fixture, Some(600)).await, expected);
        assert_eq!(timestamps(&fixture, Some(9999)).await, expected);
    }
}

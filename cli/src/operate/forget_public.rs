//! `annalist channel CHANNEL --forget-public`: removes the mark that a channel was public.

use std::io::Write;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, key};
use ports::clock::Clock;
use reader::find;
use reader::joined::ChannelOfTeam;
use reader::range::ts_from_micros;
use rules::public_mark::{self, MarkState};

use crate::plain;
use crate::read::{ChannelArgs, ReadError};

/// Removes the mark and prints the consequences.
pub(crate) async fn run(
    archive: &dyn Archive,
    clock: &dyn Clock,
    args: &ChannelArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let location = find::find_single_location(archive, &args.channel, args.read.team.as_ref())
        .await
        .map_err(ReadError::from)?;
    let ChannelOfTeam { team, channel } = &location;
    let row = archive.get(&ItemKey::public_mark(team, channel)).await?;
    if MarkState::from_row(row.as_ref()) == MarkState::Forgotten {
        writeln!(out, "{channel} of {team} did not count as public any more; nothing changes.")?;
    } else {
        let now = ts_from_micros(clock.now().0 * 1_000);
        archive.write(&public_mark::withdrawal(team, channel, &now)).await?;
        writeln!(out, "{channel} of {team} does not count as public any more.")?;
    }
    let messages = count(archive, key::messages(team, channel)).await?;
    let states = count(archive, key::channels(team, channel)).await?;
    Ok(writeln!(
        out,
        "Its private messages are dropped from now on; running programs learn of it within a minute. It counts as public again \
         with a public event that is later than this, or once Slack's directory lists it as public.\n\
         Still stored: {} and {} of its states. `annalist erase --channel {channel}` \
         removes them for good.",
        plain::counted(messages, "message", "messages"),
        plain::counted(states, "row", "rows")
    )?)
}

async fn count(archive: &dyn Archive, partition: String) -> Result<usize, ArchiveError> {
    let mut query = Query::partition(partition);
    let mut rows = 0;
    loop {
        let page = archive.query(&query).await?;
        rows += page.items.len();
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{CliFixture, message_args};

    #[tokio::test]
    async fn the_mark_is_removed_and_stored_rows_are_counted() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000000.000100", "said in private").await;
        let args = message_args("C1", "1700000000.000100");
        let args = ChannelArgs { channel: args.channel, read: args.read };
        let clock = &*fixture.ports.clock;
        let mut out = Vec::new();
        run(fixture.archive(), clock, &args, &mut out).await.unwrap();
        run(fixture.archive(), clock, &args, &mut out).await.unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("C1 of T1 does not count as public any more.\n"), "{out}");
        assert!(out.contains("1 message ") && out.contains("nothing changes"), "{out}");
        let unknown = ChannelArgs { channel: "C9".into(), ..args };
        let error = run(fixture.archive(), clock, &unknown, &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("no channel C9"), "{error}");
    }
}

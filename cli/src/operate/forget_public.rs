//! `annalist channel CHANNEL --forget-public`: takes back that a channel was public.

use std::io::Write;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, key};
use ports::clock::Clock;
use reader::find;
use reader::joined::ChannelOfTeam;
use rules::public_mark::{self, MarkState};
use slack::ids::Ts;

use crate::read::{ChannelArgs, ReadError};

/// Takes the mark back and says what that changes, and what it does not.
pub(crate) async fn run(
    archive: &dyn Archive,
    clock: &dyn Clock,
    args: &ChannelArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let place =
        find::place(archive, &args.channel, args.read.team.as_ref()).await.map_err(ReadError::from)?;
    let ChannelOfTeam { team, channel } = &place;
    let row = archive.get(&ItemKey::public_mark(team, channel)).await?;
    if MarkState::of(row.as_ref()) == MarkState::Forgotten {
        writeln!(out, "{channel} of {team} did not count as public any more; that stays so.")?;
    } else {
        let now_ms = clock.now().0;
        let now = Ts::parse(&format!("{}.{:03}000", now_ms / 1000, now_ms % 1000))?;
        archive.write(&public_mark::taken_back(team, channel, &now)).await?;
        writeln!(out, "{channel} of {team} does not count as public any more.")?;
    }
    let messages = count(archive, key::messages(team, channel)).await?;
    let states = count(archive, key::channels(team, channel)).await?;
    Ok(writeln!(
        out,
        "Its private messages are dropped from now on; programs that run know it within a minute. It counts as public again \
         with a public event that is later than this, or once Slack's directory lists it as public.\n\
         Still stored of it: {messages} messages and {states} rows of its states. `annalist erase --channel {channel}` \
         removes them for good."
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
    async fn a_mark_is_taken_back_and_what_is_still_stored_is_named() {
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
        assert!(out.contains("1 messages") && out.contains("that stays so"), "{out}");
        let unknown = ChannelArgs { channel: "C9".into(), ..args };
        let error = run(fixture.archive(), clock, &unknown, &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("no channel C9"), "{error}");
    }
}

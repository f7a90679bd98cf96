//! Checks when events may be missing, and says what to do about it.

use jiff::Timestamp;
use rules::gap::GapReason;
use rules::gap::projection::Gap;
use rules::version::zero;
use slack::ids::ChannelId;

use super::check::DoctorCheck;
use super::facts::Gaps;
use crate::plain;

pub(super) const GAPS: &str = "gaps";

pub(super) fn gaps(gaps: &Result<Gaps, String>, backend_flag: &str) -> DoctorCheck {
    let gaps = match gaps {
        Err(why) => return DoctorCheck::skipped(GAPS, why.as_str()),
        Ok(gaps) => gaps,
    };
    let newest = |newest: &Gap| format!("the newest{}: {}", since(newest), meaning(newest.reason));
    let Some(gap) = &gaps.newest else { return DoctorCheck::ok(GAPS, no_gap_left(gaps, backend_flag)) };
    if gaps.open == 0 {
        // Not a finding: a gap in the past is not a missing step of the set-up.
        let says = format!(
            "no gap is open; {} in which events may be missing, {}; `annalist gaps {backend_flag}` lists them, and \
             `annalist backfill --all {backend_flag}` reads them from Slack's history",
            plain::counted(gaps.missing, "time", "times"),
            newest(gap)
        );
        return DoctorCheck::ok(GAPS, says);
    }
    let says = format!(
        "{} since which events are missing, {}",
        plain::counted(gaps.open, "time", "times"),
        newest(gap)
    );
    let channel = gap.channel.as_ref().map_or("--all", ChannelId::as_str);
    let next = format!(
        "{}; `annalist backfill {channel} {backend_flag}` then reads what was missed",
        remedy(gap.reason)
    );
    DoctorCheck::finding(GAPS, says, next)
}

fn no_gap_left(gaps: &Gaps, backend_flag: &str) -> String {
    let Gaps { filled, lost, has_history, .. } = gaps;
    let mut says = match (filled, lost) {
        (0, 0) => "no gaps detected".to_owned(),
        (filled, 0) => {
            format!("no gaps are left: {} filled from history", plain::counted(*filled, "time", "times"))
        }
        (filled, lost) => format!(
            "no gaps are left to fill: {} filled from history, {} lost, as Slack's plan no longer shows what was written",
            plain::counted(*filled, "time", "times"),
            plain::counted(*lost, "time", "times")
        ),
    };
    if !has_history {
        says.push_str(&format!(
            "; `annalist backfill --all {backend_flag}` reads what was written before annalist was there"
        ));
    }
    says
}

fn since(gap: &Gap) -> String {
    let from = Timestamp::from_microsecond(gap.from.micros());
    let from = match from {
        Ok(_) if gap.from == zero() => Ok(" from the beginning".to_owned()),
        from => from.map(|from| from.strftime(" from %F %R UTC").to_string()),
    };
    let channel = gap.channel.as_ref().map(|channel| format!(" in {channel}")).unwrap_or_default();
    format!("{}{channel}", from.unwrap_or_default())
}

fn meaning(reason: GapReason) -> &'static str {
    match reason {
        GapReason::Downtime => "annalist was stopped, or started again",
        GapReason::RateLimited => {
            "Slack had more than 30,000 events for an hour and dropped those of that minute"
        }
        GapReason::Left => "the app was removed from the channel",
        GapReason::Revoked => "the app was uninstalled, or its token revoked",
        GapReason::Dropped => "an event was removed from quarantine, or only counted there",
        GapReason::Refused => {
            "requests were refused although Slack had signed them: this machine's clock was wrong"
        }
        GapReason::HistoryChanged => "Slack changed many messages at once",
        GapReason::Migration => "Slack moved the workspace to Enterprise Grid",
    }
}

fn remedy(reason: GapReason) -> &'static str {
    match reason {
        GapReason::Left => "invite the app again in that channel: /invite @annalist",
        GapReason::Revoked => {
            "install the app again at api.slack.com/apps > your app > Install App, if it is not"
        }
        GapReason::Migration => "wait for its end; if the app is gone then, install it again",
        // These gaps have already ended when they are detected.
        GapReason::Downtime
        | GapReason::RateLimited
        | GapReason::Dropped
        | GapReason::Refused
        | GapReason::HistoryChanged => "check Slack for what was written then",
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::Ts;

    use super::super::check::{CheckState, assert_check};
    use super::*;

    #[test]
    fn an_open_gap_is_a_finding_and_an_ended_one_is_reported() {
        let ts = |text: &str| Ts::parse(text).unwrap();
        let check_for = |reason, channel: Option<&str>, to: Option<&str>| {
            let newest = Gap {
                from: ts("1700000000.000000"),
                to: to.map(ts),
                channel: channel.map(|channel| channel.parse().unwrap()),
                reason,
                reported_at: None,
            };
            let open = usize::from(to.is_none());
            gaps(&Ok(Gaps { open, missing: 2 - open, newest: Some(newest), ..Gaps::default() }), "--data d")
        };
        for (reason, channel, expected) in [
            (GapReason::Left, Some("C1"), "1 time since which"),
            (GapReason::Left, Some("C1"), "in C1: the app was removed"),
            (GapReason::Revoked, None, "Install App"),
        ] {
            assert_check(&check_for(reason, channel, None), CheckState::Finding, expected);
        }
        let ended = Some("1700000060.000000");
        for (reason, channel, expected) in [
            (GapReason::RateLimited, None, "2 times"),
            (GapReason::RateLimited, None, "from 2023-11-14 22:13 UTC: Slack had more than 30,000"),
            (GapReason::Downtime, None, "stopped, or started again; `annalist gaps --data d`"),
            (GapReason::Dropped, Some("C1"), "quarantine"),
            (GapReason::Left, Some("C1"), "no gap is open"),
        ] {
            assert_check(&check_for(reason, channel, ended), CheckState::Ok, expected);
        }
        assert_check(&gaps(&Ok(Gaps::default()), ""), CheckState::Ok, "no gaps");
        let changed = Gap {
            from: ts("0.000000"),
            to: ended.map(ts),
            channel: Some("C1".parse().unwrap()),
            reason: GapReason::HistoryChanged,
            reported_at: ended.map(ts),
        };
        let changed = Gaps { missing: 1, newest: Some(changed), ..Gaps::default() };
        let expected = "from the beginning in C1: Slack changed many messages";
        assert_check(&gaps(&Ok(changed), ""), CheckState::Ok, expected);
        assert_check(&gaps(&Err("no answer".into()), ""), CheckState::Skipped, "no answer");
    }

    #[test]
    fn backfill_is_suggested_until_history_was_read() {
        let ok = |gaps: Gaps, expected: &str| {
            assert_check(&self::gaps(&Ok(gaps), "--data d"), CheckState::Ok, expected)
        };
        let backfill = "`annalist backfill --all --data d`";
        ok(Gaps::default(), backfill);
        let read = || Gaps { has_history: true, ..Gaps::default() };
        ok(read(), "no gaps detected");
        assert!(!gaps(&Ok(read()), "").says.contains("backfill"));
        ok(Gaps { filled: 2, ..read() }, "2 times filled from history");
        ok(Gaps { filled: 2, lost: 1, ..read() }, "1 time lost");
        let missing = Gap {
            from: zero(),
            to: Some(zero()),
            channel: None,
            reason: GapReason::Downtime,
            reported_at: None,
        };
        ok(Gaps { missing: 1, filled: 2, newest: Some(missing.clone()), ..read() }, backfill);
        let open =
            Gaps { open: 1, newest: Some(Gap { to: None, reason: GapReason::Left, ..missing }), ..read() };
        assert!(gaps(&Ok(open), "").next.is_some_and(|next| next.contains("`annalist backfill")));
    }
}

//! The history of a channel that events cannot have brought: Slack may still show it.

use slack::ids::Ts;

use crate::filled::FilledSpan;
use crate::interval::Interval;

/// What is known of a channel that is kept.
#[derive(Debug, Clone)]
pub struct KnownHistory<'a> {
    /// When it was created, if that is known.
    pub created: Option<Ts>,
    /// The first time at which the app is known to have been in it.
    pub joined: Option<Ts>,
    /// What was read of it.
    pub spans: &'a [FilledSpan],
    /// The oldest time that Slack's plan still shows and that has not expired, in microseconds; 0 if that is not known.
    pub shown_from: i64,
}

impl KnownHistory<'_> {
    /// The time of the channel before its events, at `now` by Slack's clock. What was read of it is still in it.
    ///
    /// The end of a channel from which no event came is the end of what was read first, or of what the plan hides: a
    /// new one with each look would leave something to read for ever.
    pub fn before_events(&self, now: &Ts) -> Interval {
        let read_to = self.spans.iter().map(|span| span.to.micros()).max();
        let end = self.joined.as_ref().map(Ts::micros).or(read_to);
        let end = end.or((self.shown_from > 0).then_some(self.shown_from)).unwrap_or(now.micros());
        let created = self.created.as_ref().map_or(0, Ts::micros);
        Interval { from: created.max(self.shown_from), to: end.min(now.micros()) }
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::*;
    use crate::filled::SpanSource;

    fn ts(seconds: i64) -> Ts {
        Interval { from: seconds * 1_000_000, to: 0 }.from_ts()
    }

    fn span(from: i64, to: i64) -> FilledSpan {
        let channel = ChannelId::parse("C1").unwrap();
        FilledSpan { channel, from: ts(from), to: ts(to), source: SpanSource::History }
    }

    #[test]
    fn it_ends_with_the_first_event_or_with_what_was_read_first() {
        let none = KnownHistory { created: None, joined: None, spans: &[], shown_from: 0 };
        let spans = [span(40, 60), span(70, 90)];
        for (known, expected) in [
            (none.clone(), (0, 100)),
            (KnownHistory { joined: Some(ts(50)), ..none.clone() }, (0, 50)),
            (KnownHistory { created: Some(ts(10)), joined: Some(ts(50)), ..none.clone() }, (10, 50)),
            (KnownHistory { joined: Some(ts(50)), shown_from: 20_000_000, ..none.clone() }, (20, 50)),
            // The plan hides all that was asked for.
            (KnownHistory { created: Some(ts(10)), shown_from: 99_000_000, ..none.clone() }, (99, 99)),
            (KnownHistory { spans: &spans, ..none.clone() }, (0, 90)),
            // The app joined it later than it was read.
            (KnownHistory { spans: &spans, joined: Some(ts(95)), ..none.clone() }, (0, 95)),
            // An event of a clock that is ahead.
            (KnownHistory { joined: Some(ts(200)), ..none.clone() }, (0, 100)),
        ] {
            let Interval { from, to } = known.before_events(&ts(100));
            assert_eq!((from / 1_000_000, to / 1_000_000), expected, "{known:?}");
        }
    }
}

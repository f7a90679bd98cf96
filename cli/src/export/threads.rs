//! The replies to each message of a channel. A root does not list its replies, which come later.
//!
//! The table costs an additional read of the channel before the export, and 16 bytes of memory per reply.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ports::archive::Item;
use rules::message::author;
use slack::ids::Ts;

/// The replies in a channel.
#[derive(Debug, Default)]
pub(crate) struct ThreadTable {
    threads: HashMap<Ts, Vec<ThreadReply>>,
    users: Vec<String>,
}

/// A reply. Its timestamp is stored as a number, with the count of digits before the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThreadReply {
    micros: i64,
    seconds_digits: u8,
    /// The author's position in the list of users, from 1; `None` for an app without a user.
    user: Option<NonZeroU32>,
}

/// The replies to one message, oldest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replies<'t> {
    replies: &'t [ThreadReply],
    users: &'t [String],
}

impl ThreadTable {
    /// Adds an item if it is a reply. `users` maps the table's users to their positions.
    pub(super) fn add(&mut self, item: &Item, users: &mut HashMap<String, NonZeroU32>) {
        let ts = |name: &str| Ts::parse(item.text(name)?).ok();
        let (Some(own_ts), Some(root_ts)) = (ts("ts"), ts("thread_ts")) else { return };
        if own_ts == root_ts {
            return;
        }
        let user = author(item).and_then(|user| match users.get(user) {
            Some(position) => Some(*position),
            None => {
                self.users.push(user.to_owned());
                let position = u32::try_from(self.users.len()).ok().and_then(NonZeroU32::new)?;
                users.insert(user.to_owned(), position);
                Some(position)
            }
        });
        self.threads.entry(root_ts).or_default().push(ThreadReply::new(&own_ts, user));
    }

    /// Returns the replies to a message; `None` if it has none.
    pub(crate) fn replies_to(&self, root_ts: &Ts) -> Option<Replies<'_>> {
        let replies = self.threads.get(root_ts)?;
        Some(Replies { replies, users: &self.users })
    }
}

impl ThreadReply {
    fn new(ts: &Ts, user: Option<NonZeroU32>) -> Self {
        let seconds_digits = ts.as_str().find('.').unwrap_or_default();
        Self { micros: ts.micros(), seconds_digits: u8::try_from(seconds_digits).unwrap_or(u8::MAX), user }
    }

    fn ts(self) -> String {
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let width = usize::from(self.seconds_digits);
        format!("{seconds:0width$}.{micros:06}")
    }
}

impl<'t> Replies<'t> {
    pub(crate) fn count(&self) -> usize {
        self.replies.len()
    }

    /// Returns the timestamp and the author of each reply.
    pub(crate) fn authors_by_ts(&self) -> impl Iterator<Item = (String, Option<&'t str>)> {
        let users = self.users;
        self.replies.iter().map(move |reply| {
            let user = reply
                .user
                .and_then(|position| users.get(usize::try_from(position.get()).ok()?.checked_sub(1)?));
            (reply.ts(), user.map(String::as_str))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_keeps_the_spelling_of_its_timestamp() {
        for text in ["1700000000.000100", "0915145200.000000", "0.000001", "999999999999.999999"] {
            assert_eq!(ThreadReply::new(&Ts::parse(text).unwrap(), None).ts(), text);
        }
        assert!(size_of::<ThreadReply>() <= 16);
    }
}

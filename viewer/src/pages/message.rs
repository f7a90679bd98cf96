//! One message.

use maud::{Markup, html};
use reader::numbers::grouped;
use reader::plain;
use reader::text::{Manner, MessageText};
use search::counts::ThreadSize;
use serde_json::Value;
use slack::ids::Ts;

use super::{MAX_NAME_CHARS, PageContext, attached, words};
use crate::emoji;
use crate::links::{anchor, anchor_in_thread};
use crate::times;

/// Different reactions to one message that are shown.
const MAX_REACTIONS: usize = 100;

/// People who are named at a reaction.
pub const MAX_REACTORS: usize = 20;

/// Colours that initials have.
const COLORS: u32 = 8;

/// A message to be shown.
#[derive(Debug)]
pub struct PageMessage {
    /// When it was written.
    pub ts: Ts,
    /// The row, as [`rules::project::message`] gives it.
    pub row: Value,
    /// What it says.
    pub said: MessageText,
    /// The replies to it; `None` if it has no replies, or if they are not counted.
    pub thread: Option<ThreadSize>,
}

impl PageMessage {
    /// Whether it is deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.row["deleted"] == true
    }

    /// The root of the thread that it replies to.
    #[must_use]
    pub fn replies_to(&self) -> Option<Ts> {
        reader::thread::root_ts(&self.row).filter(|root_ts| *root_ts != self.ts)
    }

    /// Whether more is said of it than when it was written.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.is_edited() || self.is_deleted() || self.is_broadcast()
    }

    fn is_edited(&self) -> bool {
        self.row["updated_ts"].is_string()
    }

    fn is_broadcast(&self) -> bool {
        self.row["subtype"] == "thread_broadcast"
    }

    /// Whether it only says that people came or left.
    #[must_use]
    pub fn is_coming_or_going(&self) -> bool {
        let subtype = self.row["subtype"].as_str().unwrap_or_default();
        matches!(subtype, "channel_join" | "channel_leave" | "group_join" | "group_leave")
    }

    /// Who reacted, as far as they are named.
    pub fn reactors(&self) -> impl Iterator<Item = &str> {
        let reactions = self.row["reactions"].as_array().into_iter().flatten().take(MAX_REACTIONS);
        let users = reactions
            .flat_map(|reaction| reaction["users"].as_array().into_iter().flatten().take(MAX_REACTORS));
        users.filter_map(Value::as_str)
    }
}

/// How a message stands among others.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageFlags {
    /// The one before it is of the same author and moment: it needs no name.
    pub goes_on: bool,
    /// It is the one that was asked for.
    pub is_target: bool,
    /// It is in its thread, which is not linked again.
    pub is_in_thread: bool,
}

/// A message.
#[must_use]
pub fn of(message: &PageMessage, standing: MessageFlags, shown: &PageContext<'_>) -> Markup {
    let PageMessage { ts, row, said, .. } = message;
    let author = plain::excerpt(&shown.names.author(&said.author), MAX_NAME_CHARS);
    let classes = [
        ("message", true),
        ("deleted", message.is_deleted()),
        ("target", standing.is_target),
        ("goes-on", standing.goes_on),
        ("notice", said.manner == Manner::Notice),
    ];
    let classes: Vec<&str> =
        classes.into_iter().filter(|(_, is_set)| *is_set).map(|(class, _)| class).collect();
    let id = if standing.is_in_thread { anchor_in_thread(ts) } else { anchor(ts) };
    html! {
        article class=(classes.join(" ")) id=(id) data-ts=(ts.as_str()) tabindex="-1" aria-label={ (author) ", " (times::short(ts, shown.zone)) }
            aria-current=[standing.is_target.then_some("true")] {
            @if !standing.goes_on { (picture(said.author.user.as_deref(), &author, shown)) }
            div class="body" {
                p class="head" {
                    @if !standing.goes_on { bdi class="author" { (author) } " " }
                    @if said.author.bot.is_some() && !standing.goes_on { span class="app" { "app" } " " }
                    (time(ts, standing, shown))
                    (marks(message, shown))
                }
                div class="text" dir="auto" {
                    @match said.manner {
                        Manner::Speech => (speech(message, shown)),
                        Manner::Notice => (words::lines(&said.lines, shown)),
                    }
                }
                (attached::of(row, shown))
                (reactions(row, shown))
                @if !standing.is_in_thread { (thread(message, shown)) }
            }
        }
    }
}

fn speech(message: &PageMessage, shown: &PageContext<'_>) -> Markup {
    let has_files = message.row["files"].as_array().is_some_and(|files| !files.is_empty());
    html! {
        @if !message.said.lines.is_empty() {
            (words::lines(&message.said.lines, shown))
        } @else if message.is_deleted() && !has_files {
            p class="quiet" { "This message was deleted before it was kept." }
        } @else if !has_files {
            p class="quiet" { "This message has no text." }
        }
    }
}

/// When it was written; the link leads to the message. In a thread no day stands above it.
fn time(ts: &Ts, standing: MessageFlags, shown: &PageContext<'_>) -> Markup {
    let has_day = standing.is_in_thread && !standing.goes_on;
    let said = if has_day { times::short(ts, shown.zone) } else { times::clock(ts, shown.zone) };
    html! {
        a class="time" href=(shown.links.message(shown.place, ts)) {
            time datetime=(times::machine(ts)) title=(times::moment(ts, shown.zone)) { (said) }
        }
    }
}

fn marks(message: &PageMessage, shown: &PageContext<'_>) -> Markup {
    html! {
        @if message.is_edited() {
            " " @match shown.links.versions(shown.place, &message.ts) {
                Some(address) => a class="edited" href=(address) { "(edited)" },
                None => span class="edited" { "(edited)" },
            }
        }
        @if message.is_deleted() { " " span class="mark-deleted" { "(deleted)" } }
        @if message.is_broadcast() { " " span class="quiet" { "(also sent to the channel)" } }
    }
}

/// The picture of a person, or else their initials.
pub(super) fn picture(user: Option<&str>, author: &str, shown: &PageContext<'_>) -> Markup {
    let picture = user.and_then(|user| shown.links.picture(shown.pictures.people.get(user)?));
    html! {
        @match picture {
            Some(picture) => img class="avatar" src=(picture) alt="" loading="lazy" width="36" height="36";,
            None => {
                @let number = author.chars().fold(0_u32, |sum, c| sum.wrapping_mul(31).wrapping_add(u32::from(c))) % COLORS;
                span class={ "avatar initials color-" (number) } aria-hidden="true" { (initials(author)) }
            }
        }
    }
}

/// The first letters of the first two words of a name.
fn initials(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(2);
    words.filter_map(|word| word.chars().next()).flat_map(char::to_uppercase).collect()
}

/// How often each emoji was given, and by whom.
fn reactions(row: &Value, shown: &PageContext<'_>) -> Markup {
    let listed = row["reactions"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        @if !listed.is_empty() {
            ul class="reactions" aria-label="Reactions" {
                @for reaction in listed.iter().take(MAX_REACTIONS) {
                    @let name = reaction["name"].as_str().unwrap_or_default();
                    @let (plain_name, _) = emoji::parted(name);
                    @let count = reaction["count"].as_u64().unwrap_or_default();
                    @let said = format!(":{}: {}", plain::excerpt(plain_name, MAX_NAME_CHARS), reactors(reaction, count, shown));
                    li title=(said) {
                        (words::emoji(name, None, shown)) " " (grouped(count))
                        span class="unseen" { " " (said) }
                    }
                }
                @if listed.len() > MAX_REACTIONS { li { "and " (listed.len() - MAX_REACTIONS) " more" } }
            }
        }
    }
}

fn reactors(reaction: &Value, count: u64, shown: &PageContext<'_>) -> String {
    let users =
        reaction["users"].as_array().into_iter().flatten().filter_map(Value::as_str).take(MAX_REACTORS);
    let names: Vec<String> = users.map(|user| plain::excerpt(shown.names.of(user), MAX_NAME_CHARS)).collect();
    let more = count.saturating_sub(names.len() as u64);
    let names = names.join(", ");
    if more > 0 { format!("{names} and {} more", grouped(more)) } else { names }
}

/// The thread under a message, or that a message is in.
fn thread(message: &PageMessage, shown: &PageContext<'_>) -> Markup {
    let of_reply = message.replies_to();
    html! {
        @if let Some(root_ts) = of_reply {
            p class="thread" { a href=(shown.links.thread(shown.place, &root_ts)) { "replied to a thread" } }
        } @else if let Some(ThreadSize { replies, last }) = &message.thread {
            p class="thread" {
                a class="thread-count" href=(shown.links.thread(shown.place, &message.ts)) {
                    (grouped(*replies)) @if *replies == 1 { " reply" } @else { " replies" }
                }
                " " span class="quiet" { "last reply " time datetime=(times::machine(last)) { (times::short(last, shown.zone)) } }
            }
        } @else if reader::thread::root_ts(&message.row).is_some() {
            p class="thread" { a href=(shown.links.thread(shown.place, &message.ts)) { "thread" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_are_those_of_two_words() {
        for (name, expected) in [
            ("Ana Lima", "AL"),
            ("ben", "B"),
            ("名前", "名"),
            ("", ""),
            ("--", ""),
            ("o'neil x y", "ON"),
            ("ßa", "SS"),
        ] {
            assert_eq!(initials(name), expected, "{name}");
        }
    }
}

//! Renders one message.

use maud::{Markup, html};
use reader::numbers::{counted, grouped};
use reader::plain;
use reader::text::spans::{LineKind, TextLine, TextSpan};
use reader::text::{Manner, MessageAuthor, MessageText};
use rules::view::MessageView;
use search::counts::ThreadSize;
use serde_json::Value;
use slack::ids::Ts;

use super::{MAX_NAME_CHARS, PageContext, attached, words};
use crate::emoji;
use crate::links::{anchor, anchor_in_thread};
use crate::times;

/// Maximum number of different reactions that are shown per message.
const MAX_REACTIONS: usize = 100;

/// Maximum number of people who are named per reaction.
pub const MAX_REACTORS: usize = 20;

/// Maximum number of emoji, and spaces between them, that are shown large.
const MAX_LARGE_SPANS: usize = 9;

/// Number of rows from which on a message is folded, and about how many bytes a row has: a third more than the style
/// sheet shows, so that a fold hides more than a line or two.
const MAX_ROWS: usize = 30;
const ROW_BYTES: usize = 90;

/// Number of colours for initials.
const COLORS: u32 = 8;

#[derive(Debug)]
pub struct PageMessage {
    /// When it was written.
    pub ts: Ts,
    /// The row from [`rules::project::message`].
    pub row: MessageView,
    /// The author and content.
    pub content: MessageText,
    /// The number of replies; `None` if there are no replies, or if they are not counted.
    pub thread: Option<ThreadSize>,
}

impl PageMessage {
    pub fn is_deleted(&self) -> bool {
        self.row.is_deleted()
    }

    /// The root of the thread, if the message is a reply.
    pub fn replies_to(&self) -> Option<Ts> {
        self.row.replies_to()
    }

    /// Whether the message is shown with a mark.
    pub fn is_marked(&self) -> bool {
        self.row.is_edited() || self.is_deleted() || self.is_broadcast() || self.row.is_pinned()
    }

    /// Whether the message is a reply that was also sent to the channel.
    pub fn is_broadcast(&self) -> bool {
        self.row.is_broadcast()
    }

    /// Whether the message is a notice that a person joined or left.
    pub fn is_join_or_leave(&self) -> bool {
        let subtype = self.row.subtype().unwrap_or_default();
        matches!(subtype, "channel_join" | "channel_leave" | "group_join" | "group_leave")
    }

    /// The people who reacted, up to the displayed limit.
    pub fn reactors(&self) -> impl Iterator<Item = &str> {
        let reactions = self.row.reactions().iter().take(MAX_REACTIONS);
        let users = reactions
            .flat_map(|reaction| reaction["users"].as_array().into_iter().flatten().take(MAX_REACTORS));
        users.filter_map(Value::as_str)
    }
}

/// The state of a message in a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageFlags {
    /// The previous message has the same author and is recent, so the name is not repeated.
    pub continues_previous: bool,
    /// The message was requested.
    pub is_target: bool,
    /// The message is shown in its thread, which is not linked again.
    pub is_in_thread: bool,
}

/// The name of an author, with that of their organisation if it is another one.
pub(super) fn author_name(author: &MessageAuthor, shown: &PageContext<'_>) -> String {
    let name = plain::excerpt(&shown.names.author(author), MAX_NAME_CHARS);
    match shown.names.organisation(author) {
        Some(organisation) => format!("{name} ({})", plain::excerpt(organisation, MAX_NAME_CHARS)),
        None => name,
    }
}

/// Renders the name of a person as a link to their page, if the site has one.
pub(super) fn person_link(user: &str, name: &str, shown: &PageContext<'_>) -> Markup {
    let address = shown.links.person(&shown.location.team, user).filter(|_| shown.names.has_name(user));
    html! { bdi class="author" title=[words::real_name(user, shown)] { @match address { Some(address) => a href=(address) { (name) }, None => (name) } } }
}

/// Renders a message.
pub fn message_article(message: &PageMessage, flags: MessageFlags, shown: &PageContext<'_>) -> Markup {
    let PageMessage { ts, row, content, .. } = message;
    let author = plain::excerpt(&shown.names.author(&content.author), MAX_NAME_CHARS);
    let named_author = author_name(&content.author, shown);
    let classes = [
        ("message", true),
        ("deleted", message.is_deleted()),
        ("target", flags.is_target),
        ("goes-on", flags.continues_previous),
        ("notice", content.manner == Manner::Notice),
    ];
    let classes: Vec<&str> =
        classes.into_iter().filter(|(_, is_set)| *is_set).map(|(class, _)| class).collect();
    let id = if flags.is_in_thread { anchor_in_thread(ts) } else { anchor(ts) };
    html! {
        article class=(classes.join(" ")) id=(id) data-ts=(ts.as_str()) tabindex="-1" aria-label={ (named_author) ", " (times::short(ts, shown.zone)) }
            aria-current=[flags.is_target.then_some("true")] {
            @if !flags.continues_previous { (picture(content.author.user.as_deref(), &author, shown)) }
            div class="body" {
                p class="head" {
                    @if !flags.continues_previous {
                        @match content.author.user.as_deref() {
                            Some(user) => (person_link(user, &named_author, shown)),
                            None => bdi class="author" { (named_author) },
                        }
                        " "
                    }
                    @if content.author.bot.is_some() && !flags.continues_previous { span class="app" { "app" } " " }
                    (time(ts, flags, shown))
                    (marks(message, shown))
                    @if let Some(link) = shown.links.copied_link(&shown.location.channel, ts) {
                        " " button type="button" class="copy-link" data-link=(link) { "Copy link" }
                    }
                }
                @let is_long = is_long(&content.lines);
                div class={ "text" @if is_lone_emoji(&content.lines) { " lone-emoji" } @if is_long { " long" } } dir="auto" {
                    @match content.manner {
                        Manner::Speech => (speech(message, shown)),
                        Manner::Notice => (words::lines(&content.lines, shown)),
                    }
                }
                @if is_long { details class="more" { summary { span class="folded" { "Show more" } span class="unfolded" { "Show less" } } } }
                (attached::of(row, shown))
                (reactions(row, shown))
                @if !flags.is_in_thread { (thread(message, shown)) }
            }
        }
    }
}

/// Whether a message is folded: it is longer than a screen.
fn is_long(lines: &[TextLine]) -> bool {
    let chars = |span: &TextSpan| match span {
        TextSpan::Text(text, _) => text.len(),
        TextSpan::Link { address, label } => label.as_ref().unwrap_or(address).len(),
        TextSpan::Emoji { .. }
        | TextSpan::User { .. }
        | TextSpan::Channel { .. }
        | TextSpan::UserGroup { .. }
        | TextSpan::Broadcast(_)
        | TextSpan::Cell
        | TextSpan::Control(_) => 1,
    };
    let rows = |line: &TextLine| 1 + line.spans.iter().map(chars).sum::<usize>() / ROW_BYTES;
    lines.iter().map(rows).sum::<usize>() > MAX_ROWS
}

/// Whether a message has a few emoji and nothing else, which are shown large.
fn is_lone_emoji(lines: &[TextLine]) -> bool {
    let [line] = lines else { return false };
    let is_emoji = |span: &TextSpan| match span {
        TextSpan::Emoji { .. } => true,
        TextSpan::Text(text, _) => text.trim().is_empty(),
        TextSpan::Link { .. }
        | TextSpan::User { .. }
        | TextSpan::Channel { .. }
        | TextSpan::UserGroup { .. }
        | TextSpan::Broadcast(_)
        | TextSpan::Cell
        | TextSpan::Control(_) => false,
    };
    (1..=MAX_LARGE_SPANS).contains(&line.spans.len())
        && line.kind == LineKind::Plain
        && line.frame.is_none()
        && line.marker.is_empty()
        && line.spans.iter().all(is_emoji)
        && line.spans.iter().any(|span| matches!(span, TextSpan::Emoji { .. }))
}

fn speech(message: &PageMessage, shown: &PageContext<'_>) -> Markup {
    let has_files = !message.row.files().is_empty();
    html! {
        @if !message.content.lines.is_empty() {
            (words::lines(&message.content.lines, shown))
        } @else if message.is_deleted() && !has_files {
            p class="quiet" { "This message was deleted before it was archived." }
        } @else if !has_files {
            p class="quiet" { "This message has no text." }
        }
    }
}

/// Renders the time of a message as a link to it. In a thread, which has no headings for days, it includes
/// the day.
fn time(ts: &Ts, flags: MessageFlags, shown: &PageContext<'_>) -> Markup {
    let has_day = flags.is_in_thread && !flags.continues_previous;
    let text = if has_day { times::short(ts, shown.zone) } else { times::clock(ts, shown.zone) };
    html! {
        a class="time" href=(shown.links.message(shown.location, ts)) {
            time datetime=(times::machine_readable(ts)) title=(times::moment(ts, shown.zone)) { (text) }
        }
    }
}

fn marks(message: &PageMessage, shown: &PageContext<'_>) -> Markup {
    html! {
        @if message.row.is_edited() {
            " " @match shown.links.versions(shown.location, &message.ts) {
                Some(address) => a class="edited" href=(address) { "(edited)" },
                None => span class="edited" { "(edited)" },
            }
        }
        @if message.row.is_pinned() { " " span class="quiet" { "(pinned)" } }
        @if message.is_deleted() { " " span class="mark-deleted" { "(deleted)" } }
        @if message.is_broadcast() { " " span class="quiet" { "(also sent to the channel)" } }
    }
}

/// Renders the picture of a person, or otherwise their initials.
pub(super) fn picture(user: Option<&str>, author: &str, shown: &PageContext<'_>) -> Markup {
    let picture = user.and_then(|user| shown.links.picture(shown.pictures.people.get(user)?));
    picture_or_initials(picture.as_deref(), author)
}

/// Renders the picture at this address, or otherwise the initials of a name.
pub(super) fn picture_or_initials(picture: Option<&str>, author: &str) -> Markup {
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

/// Returns the first letters of the first two words of a name.
fn initials(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(2);
    words.filter_map(|word| word.chars().next()).flat_map(char::to_uppercase).collect()
}

/// Renders the reactions with their counts and people.
fn reactions(row: &MessageView, shown: &PageContext<'_>) -> Markup {
    let listed = row.reactions();
    html! {
        @if !listed.is_empty() {
            ul class="reactions" aria-label="Reactions" {
                @for reaction in listed.iter().take(MAX_REACTIONS) {
                    @let name = reaction["name"].as_str().unwrap_or_default();
                    @let (plain_name, _) = emoji::split_skin_tones(name);
                    @let count = reaction["count"].as_u64().unwrap_or_default();
                    @let label = format!(":{}: {}", plain::excerpt(plain_name, MAX_NAME_CHARS), reactors(reaction, count, shown));
                    li title=(label) {
                        details {
                            summary { (words::emoji(name, &[], shown)) " " (grouped(count)) }
                            (label)
                        }
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
    let names: Vec<String> =
        users.map(|user| plain::excerpt(shown.names.person_name(user), MAX_NAME_CHARS)).collect();
    let more = count.saturating_sub(names.len() as u64);
    let names = names.join(", ");
    if more > 0 { format!("{names} and {} more", grouped(more)) } else { names }
}

/// Renders the link to the thread of a message.
fn thread(message: &PageMessage, shown: &PageContext<'_>) -> Markup {
    let reply_root = message.replies_to();
    html! {
        @if let Some(root_ts) = reply_root {
            p class="thread" { a href=(shown.links.thread(shown.location, &root_ts)) { "replied to a thread" } }
        } @else if let Some(ThreadSize { replies, last }) = &message.thread {
            p class="thread" {
                a class="thread-count" href=(shown.links.thread(shown.location, &message.ts)) {
                    (counted(*replies, "reply", "replies"))
                }
                " " span class="quiet" { "last reply " time datetime=(times::machine_readable(last)) { (times::short(last, shown.zone)) } }
            }
        } @else if message.row.root_ts().is_some() {
            p class="thread" { a href=(shown.links.thread(shown.location, &message.ts)) { "thread" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_come_from_the_first_two_words() {
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

//! The kinds of blocks and of elements of rich text, and how each is read. Content of any other kind is read
//! by [`super::unknown`].

use serde_json::Value;

use super::spans::LineBuffer;
use super::{blocks, data};

pub(super) struct BlockKind {
    /// Its `type`.
    pub(super) kind: &'static str,
    /// How people see it, for the documentation.
    shown_as: &'static str,
    /// Its page, if Slack has one.
    page: Option<&'static str>,
    /// Adds its content.
    pub(super) read: fn(&Value, &mut LineBuffer<'_>),
}

/// A kind of element of rich text.
pub(super) struct ElementKind {
    /// Its `type`.
    pub(super) kind: &'static str,
    /// How people see it, for the documentation.
    shown_as: &'static str,
    /// Its page, if Slack has one.
    page: Option<&'static str>,
    /// How it is read.
    pub(super) reading: ElementReading,
}

/// How an element of rich text is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum ElementReading {
    Text,
    Link,
    User,
    Channel,
    UserGroup,
    Broadcast,
    Emoji,
    Color,
    Date,
    /// By its words and its address.
    Mention,
    /// As a link to a message.
    Message,
}

const fn block(
    kind: &'static str,
    shown_as: &'static str,
    page: &'static str,
    read: fn(&Value, &mut LineBuffer<'_>),
) -> BlockKind {
    BlockKind { kind, shown_as, page: Some(page), read }
}

const fn element(
    kind: &'static str,
    reading: ElementReading,
    shown_as: &'static str,
    page: &'static str,
) -> ElementKind {
    ElementKind { kind, shown_as, page: Some(page), reading }
}

/// The kinds of blocks that messages contain.
pub(super) static BLOCK_KINDS: [BlockKind; 23] = [
    block("rich_text", "what people type: see the next table", "rich-text-block", blocks::rich_text),
    block("section", "text, fields, and the label of a button or menu", "section-block", blocks::section),
    block("header", "a heading", "header-block", blocks::header),
    block("context", "its texts on one line, in small print on pages", "context-block", blocks::context),
    block("actions", "the labels of its buttons and menus on one line", "actions-block", blocks::actions),
    block("context_actions", "as `actions`", "context-actions-block", blocks::actions),
    block("image", "its title, or otherwise its description", "image-block", blocks::image),
    block("divider", "a line on pages and in Markdown", "divider-block", blocks::divider),
    block("video", "its title as a link, author, provider and description", "video-block", blocks::video),
    block("input", "its label, hint, and the field's value", "input-block", blocks::input),
    block("markdown", "formatted on pages, unchanged elsewhere", "markdown-block", blocks::markdown),
    block("table", "a table", "table-block", data::table),
    block("alert", "its text, with its level in front", "alert-block", blocks::alert),
    block("card", "title as a heading, subtitle, body, small print, buttons", "card-block", blocks::card),
    block("carousel", "its cards, one after the other", "carousel-block", blocks::carousel),
    block("container", "title as a heading, subtitle, and its blocks", "container-block", blocks::container),
    block("data_table", "its caption and a table", "data-table-block", data::data_table),
    block(
        "data_visualization",
        "its title, and a table of up to 100 values per series",
        "data-visualization-block",
        data::visualization,
    ),
    block("plan", "its title as a heading, and its tasks", "plan-block", blocks::plan),
    block("task_card", "its title and status, details, output and sources", "task-card-block", blocks::task),
    BlockKind {
        kind: "call",
        shown_as: "its name as a link to join it, and whether it has ended; without a name the message's text",
        page: None,
        read: blocks::call,
    },
    block("file", "the title of the remote file, as a link", "file-block", blocks::file),
    BlockKind {
        kind: "share_shortcut",
        shown_as: "its title and description",
        page: None,
        read: blocks::shortcut,
    },
];

/// The kinds of elements that rich text contains.
pub(super) static ELEMENT_KINDS: [ElementKind; 22] = [
    element("text", ElementReading::Text, "text with its style", "text-element"),
    element("link", ElementReading::Link, "a link", "link-element"),
    element("user", ElementReading::User, "the person's name", "user-element"),
    element("channel", ElementReading::Channel, "the channel's name", "channel-element"),
    element("usergroup", ElementReading::UserGroup, "the group's handle", "usergroup-element"),
    element(
        "broadcast",
        ElementReading::Broadcast,
        "`@here`, `@channel` or `@everyone`",
        "broadcast-element",
    ),
    element("emoji", ElementReading::Emoji, "the emoji, or its name", "emoji-element"),
    element("color", ElementReading::Color, "the color's digits", "color-element"),
    element(
        "date",
        ElementReading::Date,
        "its fallback text, or otherwise the date in the reader's zone",
        "date-element",
    ),
    element("team", ElementReading::Mention, "its kind and id", "team-element"),
    element("canvas", ElementReading::Mention, "its text or the file's title, as a link", "canvas-element"),
    element("file", ElementReading::Mention, "its text or the file's title, as a link", "file-element"),
    element(
        "list_record",
        ElementReading::Mention,
        "its text or the list's title, as a link",
        "list-record-element",
    ),
    element("workflow_mention", ElementReading::Mention, "its text, as a link", "workflow-mention-element"),
    element(
        "work_object_mention",
        ElementReading::Mention,
        "its text, as a link",
        "work-object-mention-element",
    ),
    element(
        "salesforce_data_field",
        ElementReading::Mention,
        "the field's label, or otherwise the record's id",
        "salesforce-data-field-element",
    ),
    element("tag", ElementReading::Mention, "its text", "tag-element"),
    element("citation", ElementReading::Mention, "its text, as a link", "citation-element"),
    element(
        "attachment_mention",
        ElementReading::Mention,
        "its text, as a link",
        "attachment-mention-element",
    ),
    element(
        "message_mention",
        ElementReading::Message,
        "its text, or \"message from NAME\", as a link to the message",
        "message-mention-element",
    ),
    element("canvas_user_mention", ElementReading::User, "as `user`", "canvas-user-mention-element"),
    element(
        "canvas_message_unfurl",
        ElementReading::Message,
        "as `message_mention`",
        "canvas-message-unfurl-element",
    ),
];

/// The table of blocks in docs/messages.md.
pub fn blocks_table() -> String {
    let rows = BLOCK_KINDS.iter().map(|row| (row.kind, row.shown_as, row.page));
    table("block", "https://docs.slack.dev/reference/block-kit/blocks", rows)
}

/// The table of elements of rich text in docs/messages.md.
pub fn elements_table() -> String {
    let rows = ELEMENT_KINDS.iter().map(|row| (row.kind, row.shown_as, row.page));
    table("element", "https://docs.slack.dev/reference/block-kit/block-elements", rows)
}

fn table(
    name: &str,
    pages: &str,
    rows: impl Iterator<Item = (&'static str, &'static str, Option<&'static str>)>,
) -> String {
    let mut table = format!("| {name} | is read as |\n|---|---|\n");
    for (kind, shown_as, page) in rows {
        let kind = page.map_or_else(|| format!("`{kind}`"), |page| format!("[`{kind}`]({pages}/{page})"));
        table += &format!("| {kind} | {shown_as} |\n");
    }
    table
}

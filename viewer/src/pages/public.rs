//! Pages, feeds and sitemaps of a public site. Every text comes from rows that
//! [`rules::publishing::PublicNames::shown`] returned, and every name from public [`DisplayNames`].

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, Render, html};
use reader::names::DisplayNames;
use reader::numbers::{counted, grouped};
use reader::plain;
use reader::text::spans::{LineKind, TextLine};
use reader::text::{flat, markdown};
use serde_json::Value;
use slack::ids::Ts;

use super::layout::{self, Frame, MainPane};
use super::message::PageMessage;
use super::sidebar::ChannelMenu;
use super::timeline::TimelinePage;
use super::{MAX_NAME_CHARS, PageContext, timeline};
use crate::assets;
use crate::links::{LinkScheme, SitePage};
use crate::times;

/// The viewer's policy. A page contains it itself, because any server may serve it.
const POLICY: &str = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'; script-src 'self'; \
    form-action 'self'; base-uri 'none'";

/// Characters of a description: search engines show about as many.
const MAX_DESCRIPTION_CHARS: usize = 160;

/// Characters of a title: browsers and search engines cut longer ones.
pub(super) const MAX_TITLE_CHARS: usize = 80;

/// The start of an XML document.
const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// The time of a feed without entries. It must have one, and it must not be that of the build.
const NEVER: &str = "1970-01-01T00:00:00Z";

/// The policy of the search page, which loads the index and runs it.
const SEARCH_POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'self'; \
    script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; form-action 'self'; base-uri 'none'";

/// What the head of a page says to search engines and other programs.
#[derive(Debug)]
pub struct PublicHead<'a> {
    /// The page's title, without that of the site.
    pub title: String,
    /// The first words of the page.
    pub description: String,
    /// The absolute address of the page.
    pub address: String,
    /// The absolute address of the feed.
    pub feed: String,
    /// Whether search engines may list the page.
    pub is_indexed: bool,
    /// The page as data, for a thread.
    pub thread: Option<JsonLd>,
    /// The name of the site.
    pub site: &'a str,
}

/// JSON in a `script` element. No text in it can end the element.
#[derive(Debug)]
pub struct JsonLd(String);

impl JsonLd {
    /// The element's content.
    pub fn new(value: &Value) -> Self {
        let text = value.to_string();
        let escaped = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        Self(escaped.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
    }
}

impl Render for JsonLd {
    /// A `script` element has no character references, so its content is added as it is.
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&self.0);
    }
}

/// A page of a list of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicPart {
    pub name: String,
    pub address: String,
    pub messages: u64,
}

impl PublicPart {
    /// A page of a channel's messages, which is next to the list.
    pub fn of_month(name: &str, messages: u64) -> Self {
        Self { name: name.to_owned(), address: format!("{name}.html"), messages }
    }
}

/// A page of a thread.
#[derive(Debug)]
pub struct PublicThread {
    pub title: String,
    /// Its first message, on its first page.
    pub root: Option<PageMessage>,
    pub replies: Vec<PageMessage>,
    /// The address of the first message in its channel.
    pub in_channel: String,
    /// The previous page of the thread.
    pub older: Option<String>,
    /// The next page of the thread.
    pub newer: Option<String>,
}

/// Renders a page.
pub fn page(head: &PublicHead<'_>, menu: &ChannelMenu, main: Markup, links: &dyn LinkScheme) -> String {
    let main_pane = if menu.current.is_some() { MainPane::Page } else { MainPane::Channels };
    let title = head.title.clone();
    let frame = Frame { title, page: None, query: "", menu, main_pane, main, side_pane: None };
    document(head, &frame, POLICY, &Markup::default(), links)
}

/// Renders the search page. Its script reads `parts.json` beside the page.
pub fn search(head: &PublicHead<'_>, menu: &ChannelMenu, links: &dyn LinkScheme) -> String {
    let main = html! {
        div class="plain-page" {
            h1 { "Search" }
            noscript { p class="note" { "The search of this site needs JavaScript." } }
            p id="search-status" class="quiet" role="status" {}
            ol id="search-hits" class="hits" {}
            p { button id="search-more" type="button" hidden { "Show more" } }
        }
    };
    let frame = Frame {
        title: head.title.clone(),
        page: Some(SitePage::Search),
        query: "",
        menu,
        main_pane: MainPane::Page,
        main,
        side_pane: None,
    };
    let script = html! { script src=(links.asset(&assets::SITE_SEARCH)) defer {} };
    document(head, &frame, SEARCH_POLICY, &script, links)
}

fn document(
    head: &PublicHead<'_>,
    frame: &Frame<'_>,
    policy: &str,
    script: &Markup,
    links: &dyn LinkScheme,
) -> String {
    let PublicHead { title, description, address, feed, is_indexed, thread, site } = head;
    let whole_title = if title == site { title.clone() } else { format!("{title} · {site}") };
    let more = html! {
        @if *is_indexed { link rel="canonical" href=(address); } @else { meta name="robots" content="noindex"; link rel="canonical" href=(address); }
        meta name="description" content=(description);
        meta property="og:title" content=(title);
        meta property="og:description" content=(description);
        meta property="og:url" content=(address);
        meta property="og:type" content=(if thread.is_some() { "article" } else { "website" });
        meta property="og:site_name" content=(site);
        link rel="alternate" type="application/atom+xml" title=(site) href=(feed);
        @if let Some(thread) = thread { script type="application/ld+json" { (thread) } }
        (script)
    };
    layout::document_with(&whole_title, policy, &more, links, &layout::body(frame, links)).into_string()
}

/// Renders the first page: beside the list of the channels, threads with their addresses.
pub fn site_index(title: &str, newest: &[(String, &FeedEntry)]) -> Markup {
    html! {
        div class="plain-page" {
            h1 { bdi { (plain::excerpt(title, MAX_NAME_CHARS)) } }
            p { "Choose a channel." }
            @if !newest.is_empty() {
                h2 { "Newest threads" }
                ul {
                    @for (address, entry) in newest {
                        li { a href=(address) dir="auto" { (entry.title) } " " span class="quiet" { bdi { (entry.author) } ", " (entry.day()) } }
                    }
                }
            }
        }
    }
}

/// Renders the list of a channel's pages, or of those of a month. They are in the order of the list.
pub fn parts(
    name: &str,
    topic: &str,
    of: Option<&str>,
    parts: &[PublicPart],
    links: &[(String, &str)],
) -> Markup {
    html! {
        header class="channel-head" {
            h1 { bdi { "#" (plain::excerpt(name, MAX_NAME_CHARS)) } @if let Some(of) = of { " " (times::part_in_words(of)) } }
            @if !topic.is_empty() { p class="topic quiet" dir="auto" { (plain::excerpt(topic, 250)) } }
        }
        div class="timeline" {
            div class="timeline-inner" {
                @if parts.is_empty() { p class="quiet way" { "There are no messages here." } }
                ul {
                    @for part in parts {
                        li { a href=(part.address) { (times::part_in_words(&part.name)) } " " span class="quiet" { (grouped(part.messages)) @if part.messages == 1 { " message" } @else { " messages" } } }
                    }
                }
                p class="ways" { @for (address, words) in links { a href=(address) { (words) } } }
            }
        }
    }
}

/// Renders messages of a channel.
pub fn messages(name: &str, part: &str, page: &TimelinePage, shown: &PageContext<'_>) -> Markup {
    html! {
        header class="channel-head" {
            h1 { a href=(shown.links.channel(shown.location)) { bdi { "#" (plain::excerpt(name, MAX_NAME_CHARS)) } } " " (times::part_in_words(part)) }
        }
        (timeline::messages(page, shown))
    }
}

/// Renders a page of a thread.
pub fn thread(name: &str, page: &PublicThread, shown: &PageContext<'_>) -> Markup {
    html! {
        header class="channel-head" {
            h1 dir="auto" { (page.title) }
            p class="quiet" { a href=(page.in_channel) { bdi { "#" (plain::excerpt(name, MAX_NAME_CHARS)) } } }
        }
        div class="timeline" tabindex="0" role="region" aria-label="Messages of the thread" {
            div class="timeline-inner" {
                @if let Some(root) = &page.root { (timeline::each(std::slice::from_ref(root), None, true, shown)) }
                @if let Some(older) = &page.older { p class="way" { a rel="prev" href=(older) { "Earlier replies" } } }
                @if page.root.is_some() { h2 class="quiet" { (counted(page.replies.len(), "reply", "replies")) @if page.newer.is_some() { " here" } } }
                (timeline::each(&page.replies, None, true, shown))
                @if let Some(newer) = &page.newer { p class="way" { a rel="next" href=(newer) { "More replies" } } }
            }
        }
    }
}

/// Renders the page that leads from a former address to the current one.
pub fn redirect(target: &str, address: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0; url=" (target) };
                meta name="robots" content="noindex";
                link rel="canonical" href=(address);
                title { "Moved" }
            }
            body { p { "This page has moved: " a href=(target) { (address) } } }
        }
    };
    page.into_string()
}

/// Renders the page for an address without a page.
pub fn not_found(site: &str, menu: &ChannelMenu, links: &dyn LinkScheme) -> String {
    let main = html! {
        div class="welcome" {
            h1 { "This page does not exist" }
            p { "It may have been removed." }
        }
    };
    let frame = Frame {
        title: "Not found".to_owned(),
        page: None,
        query: "",
        menu,
        main_pane: MainPane::Page,
        main,
        side_pane: None,
    };
    let head = html! { meta name="robots" content="noindex"; };
    let title = format!("Not found · {site}");
    layout::document_with(&title, POLICY, &head, links, &layout::body(&frame, links)).into_string()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// The absolute address, which identifies it.
    pub address: String,
    /// The first words.
    pub title: String,
    /// The name of the author.
    pub author: String,
    /// When it was written.
    pub published: String,
    /// When it was edited last, otherwise when it was written.
    pub updated: String,
    /// The text.
    pub content: String,
}

impl FeedEntry {
    /// The entry of a message at this address.
    pub fn new(message: &PageMessage, address: String, names: &DisplayNames<'_>) -> Self {
        let published = times::machine_readable(&message.ts);
        let updated = updated(message).map_or_else(|| published.clone(), |updated| updated.to_string());
        let content = plain_text(message, names);
        let author = names.author(&message.content.author);
        let title = title_of(message, names);
        Self { address, title, author, published, updated, content }
    }

    /// The day on which it was written.
    fn day(&self) -> &str {
        self.published.split_once('T').map_or(self.published.as_str(), |(day, _)| day)
    }
}

/// Renders an Atom feed. `address` is that of the feed, `page` that of its page.
pub fn feed(title: &str, address: &str, page: &str, entries: &[FeedEntry]) -> String {
    let updated = entries.iter().map(|entry| entry.updated.as_str()).max().unwrap_or(NEVER);
    // `{}` and not `;`, so that each element is closed.
    let feed = html! {
        feed xmlns="http://www.w3.org/2005/Atom" {
            id { (xml(address)) }
            title { (xml(title)) }
            updated { (updated) }
            link rel="self" type="application/atom+xml" href=(xml(address)) {}
            link rel="alternate" type="text/html" href=(xml(page)) {}
            @for entry in entries {
                entry {
                    id { (xml(&entry.address)) }
                    title { (xml(&entry.title)) }
                    link rel="alternate" type="text/html" href=(xml(&entry.address)) {}
                    author { name { (xml(&entry.author)) } }
                    published { (entry.published) }
                    updated { (entry.updated) }
                    content type="text" { (xml(&entry.content)) }
                }
            }
        }
    };
    format!("{XML}{}\n", feed.into_string())
}

/// Renders a sitemap: addresses with the times of their last change.
pub fn sitemap(addresses: &[(String, Option<String>)]) -> String {
    let map = html! {
        urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" {
            @for (address, changed) in addresses {
                url { loc { (xml(address)) } @if let Some(changed) = changed { lastmod { (changed) } } }
            }
        }
    };
    format!("{XML}{}\n", map.into_string())
}

/// Renders the list of a site's sitemaps.
pub fn sitemap_index(addresses: &[String]) -> String {
    let index = html! {
        sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" {
            @for address in addresses { sitemap { loc { (xml(address)) } } }
        }
    };
    format!("{XML}{}\n", index.into_string())
}

/// Removes the characters that XML 1.0 forbids.
fn xml(text: &str) -> String {
    let is_allowed =
        |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}') || matches!(c, '\t' | '\n');
    text.chars().filter(is_allowed).collect()
}

/// The time of a message's last edit.
pub fn updated(message: &PageMessage) -> Option<Timestamp> {
    message.row.updated_ts()?.parse().ok()
}

/// Returns the lines of a message, with those of Markdown as the pages have them.
pub fn lines(message: &PageMessage) -> Vec<TextLine> {
    let mut lines = Vec::new();
    for part in message.content.lines.chunk_by(|one, other| one.kind == other.kind) {
        if part[0].kind == LineKind::Markdown {
            lines.extend(markdown::lines(part));
        } else {
            lines.extend_from_slice(part);
        }
    }
    lines
}

/// Returns the text of a message, or otherwise the names of its files.
pub fn plain_text(message: &PageMessage, names: &DisplayNames<'_>) -> String {
    let lines: Vec<String> = lines(message).iter().map(|line| flat::line(line, names)).collect();
    let text = lines.join("\n").trim().to_owned();
    if !text.is_empty() {
        return text;
    }
    let name =
        |file: &Value| ["title", "name"].into_iter().find_map(|name| file[name].as_str()).map(plain::line);
    let files: Vec<String> = message.row.files().iter().filter_map(name).collect();
    files.join(", ")
}

/// Returns the title of a message: its first words, or otherwise its day.
pub fn title_of(message: &PageMessage, names: &DisplayNames<'_>) -> String {
    let text = plain_text(message, names);
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.map_or_else(|| day_title(&message.ts), |first| plain::excerpt(first.trim(), MAX_TITLE_CHARS))
}

/// The title of a thread whose first words are not shown.
pub fn day_title(ts: &Ts) -> String {
    format!("Thread of {}", rules::publishing::day(ts))
}

/// Returns the first words of a page with these messages.
pub fn description<'m>(
    messages: impl IntoIterator<Item = &'m PageMessage>,
    names: &DisplayNames<'_>,
) -> String {
    let mut words = String::new();
    for message in messages {
        if words.chars().count() > MAX_DESCRIPTION_CHARS {
            break;
        }
        let text = plain_text(message, names);
        for word in text.split_whitespace().take(MAX_DESCRIPTION_CHARS) {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
    }
    plain::excerpt(&words, MAX_DESCRIPTION_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_ends_the_data_of_a_thread() {
        let value = json!({ "text": "</script><!-- & ]]> \u{2028} \"quoted\"" });
        let element = html! { script { (JsonLd::new(&value)) } }.into_string();
        let content = element.strip_prefix("<script>").unwrap().strip_suffix("</script>").unwrap();
        assert!(!content.contains(['<', '>', '&', '\u{2028}']), "{content}");
        assert_eq!(serde_json::from_str::<Value>(content).unwrap(), value);
    }

    #[test]
    fn a_feed_is_closed_and_has_no_character_that_xml_forbids() {
        let entry = FeedEntry {
            address: "https://x.test/c/a/2026-11.html#m1".into(),
            title: "]]> <b>".into(),
            author: "a & b".into(),
            published: "2026-11-20T00:00:00Z".into(),
            updated: "2026-11-21T00:00:00Z".into(),
            content: "one\u{0}\u{1b}\u{ffff}\ntwo".into(),
        };
        let feed = feed("x", "https://x.test/feed.xml", "https://x.test/", &[entry]);
        assert!(feed.contains("<title>]]&gt; &lt;b&gt;</title>") && feed.contains("a &amp; b"), "{feed}");
        assert!(
            feed.contains("one\ntwo") && feed.contains("<updated>2026-11-21T00:00:00Z</updated>"),
            "{feed}"
        );
        assert_eq!(feed.matches("<link").count(), feed.matches("</link>").count());
        assert!(super::feed("x", "a", "b", &[]).contains(NEVER));
    }

    #[test]
    fn a_sitemap_escapes_addresses() {
        let map = sitemap(&[("https://x.test/?a&b".to_owned(), Some("2026-11-20T00:00:00Z".to_owned()))]);
        assert!(
            map.contains("<loc>https://x.test/?a&amp;b</loc><lastmod>2026-11-20T00:00:00Z</lastmod>"),
            "{map}"
        );
    }
}

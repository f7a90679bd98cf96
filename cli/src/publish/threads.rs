//! The pages of the threads that begin in a month.

use std::collections::VecDeque;

use ports::archive::Item;
use rules::project;
use rules::publishing::{DELETED, NOT_SHOWN, is_published};
use serde_json::{Value, json};
use slack::ids::Ts;
use viewer::gather::learn_names;
use viewer::links::anchor;
use viewer::pages::message::PageMessage;
use viewer::pages::public::{self, JsonLd, PublicHead, PublicThread};
use viewer::public_links::{PublicLinks, channel_folder, thread_page};
use viewer::times;

use super::PublishError;
use super::channels::SiteChannel;
use super::month::{MonthPages, PAGE, changed_at};
use super::run::PublishRun;
use super::tags::UnitTags;
use super::write::SiteFile;

/// Replies in the data of a thread: search engines read a few.
const MAX_COMMENTS: usize = 100;

/// The relative path from a channel's folder of threads to the site's root.
const UP: &str = "../../../";

/// Replies that are read at once.
const REPLIES_AT_ONCE: usize = 250;

/// The replies of the threads of a page, one thread after the other. Most threads have a few replies, and a read costs
/// more than a row, so those of several threads are read at once.
#[derive(Default)]
struct RepliesOfPage {
    unread: VecDeque<Ts>,
    read: VecDeque<Option<Item>>,
}

impl RepliesOfPage {
    fn add(&mut self, replies: Vec<Ts>) {
        self.unread.extend(replies);
    }
}

impl PublishRun<'_> {
    /// Renders the pages of the threads that begin on a page, or keeps them.
    pub(super) async fn threads(
        &mut self,
        pages: &mut MonthPages<'_>,
        messages: &[PageMessage],
        part: &str,
    ) -> Result<(), PublishError> {
        let folder = channel_folder(&self.channels[pages.channel].folder);
        let part_path = format!("{folder}/{part}.html");
        let (mut changed, mut all_replies) = (Vec::new(), RepliesOfPage::default());
        for root in messages.iter().filter(|message| message.thread.is_some()) {
            let replies = self.state.replies(&pages.unit.channel, &root.ts)?;
            pages.threads.insert(root.ts.to_string());
            let path = format!("{folder}/{}", thread_page(&root.ts, 1));
            let known = match replies.len() {
                1..=PAGE => self.state.unchanged_thread(&path, &root.ts, &part_path)?,
                _ => None,
            };
            if let Some(known) = known {
                pages.tags.extend(known);
                pages.paths.insert(path);
            } else {
                changed.push((root, replies.len()));
                all_replies.add(replies);
            }
        }
        for (root, count) in changed {
            self.thread(pages, root, part, &mut all_replies, count).await?;
        }
        Ok(())
    }

    /// Renders the pages of a thread with this number of replies.
    async fn thread(
        &mut self,
        pages: &mut MonthPages<'_>,
        root: &PageMessage,
        part: &str,
        replies: &mut RepliesOfPage,
        reply_count: usize,
    ) -> Result<(), PublishError> {
        let root_ts = &root.ts;
        let folder = channel_folder(&self.channels[pages.channel].folder);
        let path = format!("{folder}/{}", thread_page(root_ts, 1));
        let count = reply_count.div_ceil(PAGE);
        // Those of the root are noted with the messages of its page.
        let mut tags = UnitTags::default();
        for index in 0..count {
            let of_page = PAGE.min(reply_count - index * PAGE);
            let channel = &self.channels[pages.channel];
            let replies = self.next_replies(channel, replies, of_page, &mut tags).await?;
            let shown_root = viewer::gather::timeline::page_message(root.row.clone(), &self.settings.zone);
            let shown_root = shown_root.filter(|_| index == 0);
            let all: Vec<&PageMessage> = replies.iter().chain([root]).collect();
            learn_names(&mut self.names, &all).await?;
            tags.note(&replies);
            let copies = self.copies_of(&all, &mut tags).await?;
            let channel = &self.channels[pages.channel];
            let name_of = |number: usize| {
                let page = thread_page(root_ts, number);
                page.rsplit('/').next().unwrap_or_default().to_owned()
            };
            let path = format!("{folder}/{}", thread_page(root_ts, index + 1));
            let is_quiet = matches!(root.row.text(), Some(NOT_SHOWN | DELETED));
            let title =
                if is_quiet { public::day_title(root_ts) } else { public::title_of(root, &self.names) };
            let links = PublicLinks { is_thread: true, copies, ..PublicLinks::new(UP, &self.site) };
            let context = self.context(&links, channel);
            let address = self.address(&path);
            let data = (index == 0).then(|| JsonLd::new(&self.data_of(root, &title, &replies, &address)));
            let head = PublicHead {
                title: title.clone(),
                description: public::description(shown_root.iter().chain(&replies), &self.names),
                address,
                feed: self.feed_of(Some(channel)),
                is_indexed: self.settings.is_indexed,
                thread: data,
                site: &self.title,
            };
            let changed = shown_root.iter().chain(&replies).map(changed_at).max();
            let page = PublicThread {
                title,
                root: shown_root,
                replies,
                in_channel: format!("../{part}.html#{}", anchor(root_ts)),
                older: (index > 0).then(|| name_of(index)),
                newer: (index + 1 < count).then(|| name_of(index + 2)),
            };
            let main = public::thread(&channel.name, &page, &context);
            let content = public::page(&head, &self.menu_of(channel), main, &links).into_bytes();
            pages.paths.insert(path.clone());
            let root_ts = (index == 0).then(|| root_ts.clone());
            let file = SiteFile { path, content, is_listed: true, changed, root_ts, part: None };
            self.writer.put(&mut self.state, pages.unit, file)?;
        }
        pages.tags.extend(tags.iter().map(str::to_owned));
        pages.rendered.push((path, tags));
        Ok(())
    }

    /// A thread as data, as search engines read discussions.
    fn data_of(&self, root: &PageMessage, title: &str, replies: &[PageMessage], address: &str) -> Value {
        let text = |message: &PageMessage| public::plain_text(message, &self.names);
        let author = |message: &PageMessage| json!({ "@type": "Person", "name": self.names.author(&message.content.author) });
        let comments: Vec<Value> = replies
            .iter()
            .take(MAX_COMMENTS)
            .map(|reply| {
                json!({ "@type": "Comment", "text": text(reply), "author": author(reply),
                    "datePublished": times::machine_readable(&reply.ts) })
            })
            .collect();
        json!({ "@context": "https://schema.org", "@type": "DiscussionForumPosting", "headline": title,
            "text": text(root), "author": author(root), "datePublished": times::machine_readable(&root.ts),
            "url": address, "comment": comments })
    }

    /// Returns the next replies as the site shows them: at most `count`, fewer if some are not shown.
    async fn next_replies(
        &self,
        channel: &SiteChannel<'_>,
        replies: &mut RepliesOfPage,
        count: usize,
        tags: &mut UnitTags,
    ) -> Result<Vec<PageMessage>, PublishError> {
        while replies.read.len() < count && !replies.unread.is_empty() {
            let next = replies.unread.drain(..REPLIES_AT_ONCE.min(replies.unread.len()));
            let next: Vec<Ts> = next.collect();
            replies.read.extend(channel.joined.messages(&next.iter().collect::<Vec<_>>()).await?);
        }
        let items = replies.read.drain(..count.min(replies.read.len()));
        let rows = items.flatten().filter_map(|item| project::message(&item));
        let rows = rows.filter(|row| is_published(row, false));
        Ok(rows.filter_map(|row| self.shown(row, tags)).collect())
    }
}

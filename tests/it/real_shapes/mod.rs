//! Messages of the shapes that Slack really sends, through the real binary: an export is imported, and every
//! surface that shows messages is read.

mod cases;
mod markers;
mod workspaces;

use std::path::PathBuf;

use serde_json::{Value, json};
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::process;

use crate::export::export;
use crate::export::formats::files_below;
use crate::import::export::{Export, ImportFolder};
use crate::import::{Imported, import};
use crate::mcp::Client;
use crate::view::get;

/// Longer than any thread or channel here.
const MANY: usize = 100;

/// An archive made of one import.
struct ShapeArchive {
    folder: ImportFolder,
    imported: Imported,
}

impl ShapeArchive {
    async fn new(export: &Export) -> Self {
        let folder = ImportFolder::new();
        let imported = import(&folder.zip("export.zip", export), &folder.data()).await;
        Self { folder, imported }
    }

    fn data(&self) -> PathBuf {
        self.folder.data()
    }

    /// The output of a command that must succeed.
    async fn printed(&self, args: &[&str]) -> String {
        annalist_at(&*self.data(), args).await.succeeded().stdout
    }

    /// The timestamps of the messages that a query finds.
    async fn found(&self, query: &str) -> Vec<String> {
        let hits = json_lines(&*self.data(), &["search", query]).await;
        hits.iter().map(|hit| hit["ts"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The files of an export: their path, and their text.
    async fn exported(&self, format: &str) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join(if format == "slack" { "out.zip" } else { "out" });
        export(&*self.data(), format, &out, &[]).await.succeeded();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let files: Vec<(String, Vec<u8>)> = if out.is_dir() {
            files_below(&out).into_iter().map(|(path, bytes)| (path.display().to_string(), bytes)).collect()
        } else {
            crate::import::export::entries(&out).into_iter().collect()
        };
        files.into_iter().map(|(path, bytes)| (path, text(bytes))).collect()
    }

    /// The pages at these paths, one after the other.
    async fn pages(&self, paths: &[String]) -> Vec<String> {
        let view = process::view(&*self.data(), &[]).await;
        let mut pages = Vec::new();
        for path in paths {
            let page = get(view.address, path, "localhost").await;
            assert!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
            pages.push(page);
        }
        view.process.stop().await;
        pages
    }
}

/// All texts in the answers to a tool that reads messages in parts.
async fn told(client: &Client, tool: &'static str, arguments: Value) -> String {
    let mut told = String::new();
    let mut after: Option<String> = None;
    for _ in 0..MANY {
        let mut arguments = arguments.clone();
        if let Some(after) = &after {
            arguments["after"] = after.as_str().into();
        }
        let answer = client.answer(tool, arguments).await;
        let Some(last) = answer["messages"].as_array().and_then(|messages| messages.last()) else { break };
        for message in answer["messages"].as_array().into_iter().flatten() {
            told += &format!("{}: {}\n{}\n", message["author"], message["text"], message["files"]);
        }
        let last = last["ts"].as_str().map(str::to_owned);
        if last == after {
            break;
        }
        after = last;
    }
    told
}

/// The text of a page without its tags.
fn without_tags(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, tag)) = rest.split_once('<') {
        text += before;
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    text += rest;
    for (escaped, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        text = text.replace(escaped, character);
    }
    text
}

/// The text of a Markdown file without its escapes.
fn without_escapes(markdown: &str) -> String {
    markdown.replace('\\', "")
}

/// A channel as an export lists it, without members.
fn plain_channel(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "created": 1_500_000_000, "is_archived": false, "members": [] })
}

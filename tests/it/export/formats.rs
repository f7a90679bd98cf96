//! The formats that write folders of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::harness::command::{annalist_at, json_lines};

use super::{archive, export, ts};
use crate::import::export::entries;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn jsonl_equals_the_output_of_the_commands() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let exported = export(data.as_path(), "jsonl", &out, &["--include-deleted"]).await;
    assert_eq!((exported.code, exported.stderr.as_str()), (Some(0), ""), "{exported:?}");
    assert_eq!(
        names(&out),
        ["SHA256SUMS", "channels.jsonl", "files.jsonl", "messages.jsonl", "revisions.jsonl", "users.jsonl"]
    );
    let messages = lines(&out.join("messages.jsonl"));
    let summary = format!("Exported {} messages of 6 channels to {}.\n", messages.len(), out.display());
    assert_eq!(exported.stdout, summary);
    for id in ["C1", "C2", "C3", "C4", "C6", "C7"] {
        let printed = json_lines(data.as_path(), &["messages", id]).await;
        let of_channel =
            |message: &&Value| message["channel_id"] == id || (id == "C6" && message["channel_id"] == "C5");
        let exported: Vec<Value> = messages.iter().filter(of_channel).cloned().collect();
        assert_eq!(exported, printed, "{id}");
    }
    let revisions = json_lines(data.as_path(), &["revisions", "C1", &ts(20)]).await;
    assert_eq!(lines(&out.join("revisions.jsonl")), revisions);
    for (file, command) in [("users.jsonl", "users"), ("files.jsonl", "files")] {
        assert_eq!(lines(&out.join(file)), json_lines(data.as_path(), &[command]).await, "{file}");
    }
    let without = folder.path().join("without");
    assert_eq!(export(data.as_path(), "jsonl", &without, &[]).await.code, Some(0));
    let kept: Vec<Value> = messages.into_iter().filter(|message| message["deleted"] != true).collect();
    assert_eq!(lines(&without.join("messages.jsonl")), kept);
}

#[tokio::test]
async fn text_equals_the_output_of_messages() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    export(data.as_path(), "text", &out, &["--include-deleted", "--tz", "UTC"]).await.succeeded();
    assert_eq!(
        names(&out),
        ["SHA256SUMS", "_partners-C6.txt", "closed.txt", "general.txt", "random-C4.txt", "random.txt"]
    );
    for (file, id, name) in
        [("general", "C1", "#general"), ("random", "C2", "#random"), ("_partners-C6", "C6", "#../partners")]
    {
        let printed = annalist_at(data.as_path(), &["messages", id, "--tz", "UTC"]).await.stdout;
        let text = fs::read_to_string(out.join(format!("{file}.txt"))).unwrap();
        let printed = printed.replace("which is not in this archive:", "which is not in this export:");
        assert_eq!(text, format!("{name} ({id})\n{printed}"));
    }
    let without = folder.path().join("without");
    assert_eq!(export(data.as_path(), "text", &without, &["--tz", "UTC"]).await.code, Some(0));
    let text = fs::read_to_string(without.join("general.txt")).unwrap();
    assert!(!text.contains("that will go") && text.contains("unknown (deleted) (1 reply)"), "{text}");
    assert!(text.contains("    2020-09-13 12:26:52  1600000012.000100"), "{text}");
}

#[tokio::test]
async fn markdown_nests_threads_and_escapes_markup_in_messages() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    export(data.as_path(), "markdown", &out, &["--tz", "UTC"]).await.succeeded();
    let index = fs::read_to_string(out.join("index.md")).unwrap();
    assert!(index.starts_with("# Channels\n\nTimes are in UTC.\n\n- ["), "{index}");
    assert!(
        index.contains("- [#general](general.md): ") && index.contains(", 2020-09-13 to 2020-09-14\n"),
        "{index}"
    );
    let linked = index.split("](").skip(1).map(|link| link.split(')').next().unwrap());
    assert!(linked.clone().all(|path| out.join(path).exists()), "{index}");
    let text = fs::read_to_string(out.join("general.md")).unwrap();
    let expected = [
        "# #general\n\nPurpose: what it is for\n\nChannel C1. Times are in UTC.\n\n## 2020-09-13\n",
        "\n- **Person U1** 12:26:41 _(1 reply)_\n\n  a question\n\n  - **Person U2** 2020-09-13 12:26:42\n\n    an answer\n",
        "\n- **Person U1** 12:26:43 _(edited)_\n\n  corrected  \n  🎉 2\n",
        "\n- **unknown** 12:26:50 _(deleted)_ _(1 reply)_\n",
        "\n- _A thread whose first message is not in this export:_\n\n  - **Person U2** 2020-09-13 12:27:05\n",
        "\n- **deploys** 12:27:04\n\n  deployed\n",
        "\n## 2020-09-14\n",
        "see [this](<https://x.test/>)  \n  \\[file: a.txt, 5 B, held\\]",
    ];
    for expected in expected {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    for hostile in ["<script", "\u{202e}", "\u{1b}", "](<javascript", "\n# not", "\n  # not", "that will go"]
    {
        let outside_of_code: String = text.split("```").step_by(2).collect();
        assert!(!outside_of_code.contains(hostile), "{hostile:?} is in\n{text}");
    }
}

/// Every file below a folder, by its relative path.
pub(crate) fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Whether these bytes contain a text.
pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Every address that a page loads or links to.
fn addresses(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in [" href=\"", " src=\"", " action=\""] {
        let values = page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(values.map(|value| value.replace("&amp;", "&")));
    }
    found
}

/// The path within the site that an address on a page refers to, and its anchor.
fn followed(page: &Path, address: &str) -> (PathBuf, Option<String>) {
    let (path, anchor) = match address.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (address, None),
    };
    let mut target = if path.is_empty() { page.to_owned() } else { page.parent().unwrap().to_owned() };
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            assert!(target.pop(), "{address} leads out of the site");
        } else {
            target.push(part);
        }
    }
    (target, anchor)
}

#[tokio::test]
async fn html_is_a_site_without_broken_links_that_loads_nothing_from_elsewhere() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    export(data.as_path(), "html", &out, &["--tz", "UTC"]).await.succeeded();
    let site = files_below(&out);
    let page = |path: &str| String::from_utf8(site[Path::new(path)].clone()).unwrap();
    for (path, bytes) in
        site.iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "html"))
    {
        let text = String::from_utf8(bytes.clone()).unwrap();
        for address in addresses(&text) {
            if address.contains("://") {
                assert!(!text.contains(&format!(" src=\"{address}")), "{}: {address}", path.display());
                continue;
            }
            let (leads, anchor) = followed(path, &address);
            let target = site.get(&leads).unwrap_or_else(|| panic!("{}: {address}", path.display()));
            if let Some(anchor) = anchor {
                let target = String::from_utf8_lossy(target);
                assert!(target.contains(&format!("id=\"{anchor}\"")), "{}: {address}", path.display());
            }
        }
        let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ";
        assert!(text.contains(policy), "{}", path.display());
        for hostile in ["<script>alert", "href=\"javascript", "that will go"] {
            assert!(!text.contains(hostile), "{}: {hostile}", path.display());
        }
    }
    let (general, threads) = (page("c/general/2020-09.html"), page("c/general/2020-09-threads.html"));
    for expected in
        ["a question", "corrected", "after the edit", "deployed", "to the channel too", "made of words"]
    {
        assert_eq!(general.contains(expected), expected != "made of words", "{expected}");
    }
    assert!(
        !general.contains("an answer") && threads.contains("an answer") && threads.contains("a live reply")
    );
    let index = page("index.html");
    assert!(index.contains("c/general/index.html"));
    for (id, expected) in [("C1", "class=\"count\">13<"), ("C2", "<span class=\"mark\">shared</span>")] {
        let (_, listed) = index.split_once(&format!("data-channel=\"{id}\"")).unwrap();
        assert!(listed.split("</li>").next().unwrap().contains(expected), "{id}: {listed}");
    }
    assert_eq!(site[Path::new("files/F1.txt")], b"hello");
    let without = folder.path().join("without");
    assert_eq!(export(data.as_path(), "html", &without, &["--no-files"]).await.code, Some(0));
    assert!(!without.join("files").exists());
    let without = fs::read_to_string(without.join("c/general/2020-09.html")).unwrap();
    assert!(without.contains("a.txt</bdi> 5 B – it is not in this copy"), "{without}");
}

#[tokio::test]
async fn no_export_contains_erased_messages() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    annalist_at(data.as_path(), &["erase", "--user", "U1", "--yes"]).await.succeeded();
    for format in ["slack", "jsonl", "html", "markdown", "text"] {
        let out = folder.path().join(format);
        export(data.as_path(), format, &out, &["--include-deleted"]).await.succeeded();
        let text: String = match format {
            "slack" => entries(&out).values().map(|bytes| String::from_utf8_lossy(bytes)).collect(),
            _ => files_below(&out).values().map(|bytes| String::from_utf8_lossy(bytes)).collect(),
        };
        for gone in
            ["a question", "corrected", "after the edit", "before the edit", "Person U1", "that will go"]
        {
            assert!(!text.contains(gone), "{format}: {gone}");
        }
        assert!(text.contains("an answer") && text.contains("elsewhere"), "{format}: {text}");
    }
}

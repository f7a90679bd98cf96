//! The demo's archive in a real browser, as `annalist view` serves it and as `annalist export` writes it. `.ci/run` installs the
//! browser; without it these tests are ignored. The viewer's own tests cover what a user does there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::browser::{Browser, BrowserSettings};
use tests::harness::command::annalist;
use tests::harness::process;
use tests::harness::python;

/// A script that returns axe's serious and critical faults, which keep people from reading a page.
const FAULTS: &str = "return axe.run(document, { resultTypes: ['violations'], preload: false }).then((found) => found.violations \
    .filter((fault) => ['serious', 'critical'].includes(fault.impact)) \
    .map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html).slice(0, 3).join(' ')}`));";

/// A script that returns the addresses of the page's links, without fragments.
const LINKS: &str = "return [...document.links].map((link) => link.href.split('#')[0]);";

/// axe-core, <https://github.com/dequelabs/axe-core>, from a Python package that contains it.
fn axe() -> String {
    let python = python::environment("axe", include_str!("axe.txt")).unwrap();
    let library = python.parent().and_then(Path::parent).unwrap().join("lib");
    let mut versions = fs::read_dir(library).unwrap();
    let packages = versions.next().unwrap().unwrap().path().join("site-packages");
    fs::read_to_string(packages.join("axe_playwright_python/axe.min.js")).unwrap()
}

async fn demo() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("demo");
    annalist(&["demo", "--data", data.to_str().unwrap()]).await.succeeded();
    (folder, data)
}

/// The pages that are reachable from this one by links, at most `most` of each kind.
async fn walk(browser: &Browser, start: &str, kind: impl Fn(&str) -> String, most: usize) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    let (mut found, mut next) = (BTreeSet::from([start.to_owned()]), 0);
    let mut pages = vec![start.to_owned()];
    while let Some(page) = pages.get(next).cloned() {
        browser.navigate(&page).await;
        for link in browser.run_script(LINKS).await.as_array().unwrap().iter().filter_map(Value::as_str) {
            let of_kind = kind(link);
            if !of_kind.is_empty()
                && found.insert(link.to_owned())
                && kinds.iter().filter(|other| **other == of_kind).count() < most
            {
                kinds.push(of_kind);
                pages.push(link.to_owned());
            }
        }
        next += 1;
    }
    pages
}

async fn assert_faultless(browser: &Browser, page: &str, axe: &str) {
    browser.navigate(page).await;
    let faults = browser.run_script(&format!("{axe};\n{FAULTS}")).await;
    assert_eq!(faults, json!([]), "{page}");
    assert_eq!(browser.console_problems().await, [""; 0], "{page}");
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_no_serious_fault_in_pages() {
    let (_folder, data) = demo().await;
    let server = process::view(&*data, &["--tz", "UTC"]).await;
    let site = format!("http://{}/", server.address);
    let axe = axe();
    let browser = Browser::open(&BrowserSettings::default()).await;
    let kind = |link: &str| {
        let path = link.strip_prefix(&site).unwrap_or_default();
        let kind = path.split(['/', '?']).next().unwrap_or_default();
        // The bytes of a file are not a page.
        if path.starts_with("files/") || path.starts_with("pictures/") {
            String::new()
        } else {
            kind.to_owned()
        }
    };
    let mut pages = walk(&browser, &site, kind, 2).await;
    pages.push(format!("{site}search?q=release"));
    for expected in ["/c/", "/t/", "/r/", "/files", "/stats", "/coverage", "/search"] {
        assert!(pages.iter().any(|page| page.contains(expected)), "{expected}: {pages:?}");
    }
    for settings in [
        BrowserSettings::default(),
        BrowserSettings { is_dark: true, ..BrowserSettings::default() },
        BrowserSettings { is_narrow: true, ..BrowserSettings::default() },
    ] {
        let browser = Browser::open(&settings).await;
        for page in &pages {
            assert_faultless(&browser, page, &axe).await;
        }
    }
    server.process.sigkill().await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn an_exported_site_is_read_without_a_server() {
    let (folder, data) = demo().await;
    let out = folder.path().join("site");
    let (data, target) = (data.to_str().unwrap(), out.to_str().unwrap());
    annalist(&["export", "--format", "html", "--out", target, "--data", data]).await.succeeded();
    let site = format!("file://{target}/");
    let kind = |link: &str| {
        let path = link.strip_prefix(&site).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let kinds = ["index.html", "-threads.html", ".html"];
        kinds.into_iter().find(|kind| name.ends_with(kind)).unwrap_or_default().to_owned()
    };
    let axe = axe();
    let browser = Browser::open(&BrowserSettings::default()).await;
    let pages = walk(&browser, &format!("{site}index.html"), kind, 3).await;
    assert_eq!(pages.len(), 10, "the first page, and three of each kind: {pages:?}");
    for page in &pages {
        assert_faultless(&browser, page, &axe).await;
        let broken = "return [...document.images].map((image) => { image.loading = 'eager'; return image; }) \
            .map((image) => image.decode().then(() => null, () => image.src));";
        let broken =
            format!("return Promise.all((() => {{ {broken} }})()).then((all) => all.filter(Boolean));");
        assert_eq!(browser.run_script(&broken).await, json!([]), "{page}");
        let list = "return getComputedStyle(document.querySelector('.channel-list')).listStyleType;";
        assert_eq!(browser.run_script(list).await, "none", "{page} has its style");
        for link in browser.run_script(LINKS).await.as_array().unwrap().iter().filter_map(Value::as_str) {
            if let Some(path) = link.strip_prefix(&site) {
                assert!(out.join(path).exists(), "{page} leads to {path}");
            }
        }
    }
    for request in browser.requests().await {
        let is_elsewhere = request.starts_with("http") || request.starts_with("file:");
        assert!(request.starts_with(&site) || !is_elsewhere, "{request}");
    }
}

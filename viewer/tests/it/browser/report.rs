//! A self-contained report, opened from a file.

use jiff::Timestamp;
use reader::figures::making::{ReportScope, make_report};
use reader::figures::period::Period;
use serde_json::json;
use slack::ids::TeamId;
use viewer::pages::figures::standalone_report;

use super::accessible::AUDIT;
use super::site::ServedSite;
use testkit::browser::{Browser, BrowserSettings};

/// The week of the site's first messages.
const WEEK: &str = "2026-W40";

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_a_single_file_that_a_browser_opens_without_errors() {
    let site = ServedSite::busy(400).await;
    let (team, archive) = (TeamId::parse("T1").unwrap(), site.fixture.archive());
    let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
    let week = Period::week(WEEK).unwrap();
    let report = make_report(&*archive, &team, ReportScope::Team, week, None, now).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, standalone_report(&report).into_string()).unwrap();
    let address = format!("file://{}", file.display());
    for (is_dark, is_narrow) in [(false, false), (true, false), (true, true)] {
        let settings = BrowserSettings { is_dark, is_narrow, ..BrowserSettings::default() };
        let browser = Browser::open(&settings).await;
        browser.navigate(&address).await;
        assert!(browser.title().await.ends_with("28 September – 4 October 2026 (week 40)"));
        assert!(browser.is_visible("svg").await && browser.text("main").await.contains("Ana Lima"));
        let background = browser.run_script("return getComputedStyle(document.body).backgroundColor;").await;
        assert_eq!(background == "rgb(23, 24, 26)", is_dark, "{background}");
        let width = browser.run_script("return [document.documentElement.scrollWidth, innerWidth];").await;
        assert!(width[0].as_u64() <= width[1].as_u64(), "{width}");
        assert_eq!(browser.run_script(AUDIT).await, json!([]), "dark: {is_dark}");
        assert_eq!(browser.console_problems().await, [""; 0]);
        // Chromium's own start page requests internal resources.
        let is_external = |request: &String| request.starts_with("http") || request.starts_with("file:");
        let requests: Vec<String> = browser.requests().await.into_iter().filter(is_external).collect();
        assert_eq!(requests, [address.as_str()]);
    }
}

//! Accessibility: the needs of screen readers, and the contrast of colours.

use super::site::{ServedSite, ts};
use testkit::browser::{Browser, BrowserSettings};

/// Lists the faults of a page: missing names, duplicate ids, missing landmarks, headings out of order, and
/// text with a contrast below level AA of WCAG 2, parts that the keyboard cannot scroll.
pub(super) const AUDIT: &str = include_str!("audit.js");

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn every_page_passes_the_accessibility_audit() {
    let site = ServedSite::busy(60).await;
    for is_dark in [false, true] {
        let browser = Browser::open(&BrowserSettings { is_dark, ..BrowserSettings::default() }).await;
        for path in [
            "/".to_owned(),
            "/c/T1/C1".to_owned(),
            "/c/T1/C2".to_owned(),
            format!("/c/T1/C1?around={}", ts(1)),
            format!("/t/T1/C1/{}", ts(0)),
            format!("/r/T1/C1/{}", ts(1)),
            "/c/T1/C1/info".to_owned(),
            "/c/T1/C1/threads".to_owned(),
            "/c/T1/C1/calendar".to_owned(),
            "/people".to_owned(),
            "/u/T1/U1".to_owned(),
            "/files?type=image".to_owned(),
            "/search".to_owned(),
            "/search?q=number".to_owned(),
            "/search?q=from%3A%40nosuch".to_owned(),
            "/files".to_owned(),
            "/stats".to_owned(),
            "/coverage".to_owned(),
            "/nowhere".to_owned(),
        ] {
            browser.navigate(&site.at(&path)).await;
            let faults = browser.run_script(AUDIT).await;
            assert_eq!(
                faults,
                serde_json::json!([]),
                "{path}, dark: {is_dark}, {:?}",
                browser.console_problems().await
            );
        }
    }
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_finds_faults() {
    let site = ServedSite::busy(1).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/")).await;
    let faulty = "const add = (name, set = () => {}) => { const made = document.createElement(name); set(made); \
        document.querySelector('main').append(made); }; \
        add('img'); add('input'); add('button'); add('pre'); add('h6', (h) => { h.textContent = 'deep'; }); \
        add('p', (p) => { p.id = 'main'; p.textContent = 'faint'; p.setAttribute('class', 'faint'); \
        p.attributeStyleMap.set('color', 'rgb(200, 200, 200)'); });";
    browser.run_script(faulty).await;
    let faults = browser.run_script(AUDIT).await.to_string();
    for expected in ["no alt", "no label", "no name", "h6", "id main", "contrast", "keyboard"] {
        assert!(faults.contains(expected), "{expected} is not in {faults}");
    }
}

//! Large pictures, links to copy, marked words, and the list of keys.

use serde_json::json;

use super::site::{ServedSite, ts};
use testkit::browser::{Browser, BrowserSettings};

/// WebDriver's codes of keys.
const ESCAPE: &str = "\u{e00c}";
const ENTER: &str = "\u{e007}";
const RIGHT: &str = "\u{e014}";

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn pictures_are_shown_large_and_one_after_the_other() {
    let site = ServedSite::busy(1).await;
    let file = json!({ "id": "F3", "name": "second.png", "mimetype": "image/png", "original_w": 800, "original_h": 200 });
    site.fixture.share("C2", "1795100003.000100", file, b"\x89PNG\r\n\x1a\n").await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/c/T1/C2")).await;
    let box_of = "const box = document.querySelector('img[alt=\"second.png\"]').getBoundingClientRect(); return [box.width, box.height];";
    assert_eq!(
        browser.run_script(box_of).await,
        json!([416, 105.5]),
        "its border included, before it is loaded"
    );
    browser.click(".picture[href='/files/T1/F1']").await;
    let shown =
        "const box = document.getElementById('lightbox'); return box.open && box.querySelector('img').alt;";
    assert_eq!(browser.run_script(shown).await, "pixel.png");
    browser.press(RIGHT).await;
    assert_eq!(browser.run_script(shown).await, "second.png");
    browser.press(RIGHT).await;
    assert_eq!(browser.run_script(shown).await, "pixel.png");
    browser.press(ESCAPE).await;
    assert_eq!(browser.run_script(shown).await, false);
    assert!(browser.address().await.ends_with("/c/T1/C2"));
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_copied_and_a_hit_is_opened_by_a_key_with_its_words_marked() {
    let site = ServedSite::busy(10).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at(&format!("/c/T1/C1?around={}", ts(4)))).await;
    browser
        .run_script(
            "window.copied = []; navigator.clipboard.writeText = async (text) => { window.copied.push(text); };",
        )
        .await;
    assert!(!browser.is_visible(&format!("#m{}  .copy-link", ts(4).replace('.', "\\."))).await);
    browser.press("j").await;
    browser.run_script("document.activeElement.querySelector('.copy-link').click();").await;
    let copied = site.at(&format!("/archives/C1/p{}", ts(0).replace('.', "")));
    assert_eq!(browser.run_script("return window.copied;").await, json!([copied]));
    browser.navigate(&copied).await;
    browser.wait_for_address(&format!("around={}", ts(0))).await;

    browser.navigate(&site.at("/search?q=%22number+7%22+in%3AC1")).await;
    browser.press("j").await;
    browser.press(ENTER).await;
    browser.wait_for_address(&format!("around={}", ts(7))).await;
    let marked = "return [...document.querySelectorAll('main mark')].map((mark) => mark.textContent);";
    assert_eq!(browser.run_script(marked).await, json!(["number", "7"]));
    browser.press("?").await;
    assert!(browser.text("#keys").await.contains("open the thread"));
    browser.press(ESCAPE).await;
    assert!(!browser.is_visible("#keys").await);
    assert_eq!(browser.console_problems().await, [""; 0]);
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn channels_and_people_are_completed_in_the_search_field() {
    let site = ServedSite::busy(3).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/")).await;
    let completed = "const list = document.getElementById('completions'); \
        return new Promise((done) => { \
            const look = () => { if (list.options.length === COUNT) done([...list.options].map((option) => option.value)); }; \
            new MutationObserver(look).observe(list, { childList: true }); look(); });";
    let completed = async |count: &str| browser.run_script(&completed.replace("COUNT", count)).await;
    browser.type_into("#q", "number in:#d").await;
    assert_eq!(completed("3").await[0], "number in:#deploys ");
    browser.run_script("document.getElementById('q').value = ''").await;
    browser.type_into("#q", "number from:ok").await;
    assert_eq!(completed("1").await, serde_json::json!(["number from:\"Ben Okafor\" "]));
    browser.run_script("document.getElementById('q').value = ''").await;
    browser.type_into("#q", "number").await;
    assert_eq!(completed("0").await, serde_json::json!([]));
}

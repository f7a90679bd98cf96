//! A page that stays open while messages come.

use std::time::Duration;

use serde_json::json;
use testkit::browser::{Browser, BrowserSettings};
use tokio::time::timeout;

use super::accessible::AUDIT;
use super::site::{ServedSite, ts};

/// Waits until a script returns true.
async fn wait_until(browser: &Browser, script: &str) {
    let waiting = async { while browser.run_script(script).await != true {} };
    timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("never true: {script}"));
}

const IS_AT_END: &str = "const t = document.querySelector('.timeline'); \
    return t.scrollHeight - t.scrollTop - t.clientHeight < 100;";

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_shows_what_comes() {
    let site = ServedSite::busy(130).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/c/T1/C1")).await;
    let shown = |text: &str| {
        format!(
            "return [...document.querySelectorAll('main .message')].some((m) => m.textContent.includes('{text}'));"
        )
    };
    site.fixture.post("C1", &ts(130), "it came &lt;b&gt;live&lt;/b&gt;").await;
    wait_until(&browser, &shown("it came <b>live</b>")).await;
    assert_eq!(browser.run_script(IS_AT_END).await, true);
    site.fixture.edit("C1", &ts(130), "1795300000.000100", "it was edited live").await;
    wait_until(&browser, &shown("it was edited live")).await;
    site.fixture.delete("C1", &ts(129), "1795300001.000100").await;
    wait_until(
        &browser,
        "return [...document.querySelectorAll('main .message')].at(-2).matches('.deleted');",
    )
    .await;

    // Further up, a button says how many came, and leads to them.
    browser.run_script("document.querySelector('.timeline').scrollTop = 0;").await;
    for n in 131..134 {
        site.fixture.post("C1", &ts(n), &format!("below {n}")).await;
    }
    wait_until(&browser, &shown("below 133")).await;
    assert_eq!(browser.text(".new-messages").await, "3 new messages");
    assert_eq!(browser.run_script("return document.querySelector('.timeline').scrollTop;").await, 0);
    assert_eq!(browser.run_script(AUDIT).await, json!([]));
    browser.click(".new-messages").await;
    wait_until(&browser, IS_AT_END).await;
    assert!(!browser.is_visible(".new-messages").await);

    // What came is where a new load of the page has it.
    let order = "return [...document.querySelectorAll('main .message, main h2')].slice(-12)\
        .map((m) => m.dataset.ts || m.textContent);";
    site.fixture.post("C1", "1795500000.000100", "the next day").await;
    wait_until(&browser, &shown("the next day")).await;
    let live = browser.run_script(order).await;
    browser.navigate(&site.at("/c/T1/C1")).await;
    assert_eq!(browser.run_script(order).await, live);
    assert_eq!(browser.console_problems().await, [""; 0]);
}

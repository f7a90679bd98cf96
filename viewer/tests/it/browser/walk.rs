//! The actions of a user: filter, scroll, read a thread, search, follow a link, jump to a day, download.

use super::site::{ServedSite, ts};
use testkit::browser::{Browser, BrowserSettings};

/// WebDriver's codes of keys.
const ESCAPE: &str = "\u{e00c}";
const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";

/// Asserts that the browser reported no errors and sent no requests to other sites.
async fn assert_no_errors_or_external_requests(browser: &Browser, site: &ServedSite) {
    assert_eq!(browser.console_problems().await, [""; 0]);
    let ours = site.at("/");
    for request in browser.requests().await {
        assert!(request.starts_with(&ours) || !request.starts_with("http"), "{request}");
    }
}

async fn timestamps(browser: &Browser) -> Vec<String> {
    let mut found = Vec::new();
    for message in browser.find_all("main [data-ts]").await {
        found.push(browser.attribute(&message, "data-ts").await);
    }
    found
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn a_user_can_navigate_the_archive() {
    let site = ServedSite::busy(130).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/")).await;
    browser.type_into("#channel-filter", "GENE").await;
    assert!(browser.is_visible("[data-channel=C1]").await && !browser.is_visible("[data-channel=C2]").await);
    browser.type_into("#channel-filter", ENTER).await;
    browser.wait_for_address("/c/T1/C1").await;
    assert!(browser.title().await.starts_with("#general"));

    // The newest message is visible. Older ones follow in order, and the link back returns.
    let newest = timestamps(&browser).await;
    assert_eq!(newest.last(), Some(&ts(129)));
    let is_in_sight = "const box = [...document.querySelectorAll('main .message')].at(-1).getBoundingClientRect(); \
        return box.top >= 0 && box.bottom <= innerHeight;";
    assert_eq!(browser.run_script(is_in_sight).await, true);
    browser.follow("a[rel=prev]").await;
    let older = timestamps(&browser).await;
    assert!(older.last() < newest.first() && older.len() == 50);
    browser.follow("a[rel=next]").await;
    assert_eq!(timestamps(&browser).await, newest);

    browser.navigate(&site.at(&format!("/archives/C1/p{}", ts(1).replace('.', "")))).await;
    assert!(browser.text(".message.target").await.contains("message number 1, edited"));
    assert_eq!(
        browser.run_script("return document.querySelector('.target').getBoundingClientRect().top > 0;").await,
        true
    );
    browser.follow(".message.target .edited").await;
    assert!(browser.text("main").await.contains("message number 1 "));

    browser.navigate(&site.at(&format!("/c/T1/C1?around={}", ts(0)))).await;
    assert_eq!(browser.text(".thread-count").await, "1 reply");
    browser.follow(".thread-count").await;
    assert!(browser.text("aside").await.contains("the only reply"));
    assert!(browser.text("aside strong").await == "only" && browser.is_visible("main").await);

    browser.type_into("#q", "quoted link").await;
    browser.follow(".search button").await;
    assert_eq!(browser.text("mark").await, "quoted");
    browser.follow(".hit a.time").await;
    assert!(browser.text(".message.target").await.contains("let answer = 42;"));

    browser.follow(".channel-head a[href*='/calendar']").await;
    browser.run_script("document.getElementById('day').value = '2026-10-03';").await;
    browser.follow(".day-form button").await;
    assert!(browser.text("main").await.contains("There are no messages on Saturday, 3 October 2026"));

    browser.navigate(&site.at("/c/T1/C2")).await;
    let is_shown = "const image = document.querySelector('.files img'); image.loading = 'eager'; return image.decode().then(() => image.naturalWidth);";
    assert_eq!(browser.run_script(is_shown).await, 1);
    browser.click("a.file[href='/files/T1/F2']").await;
    assert_eq!(browser.downloaded("notes.txt").await, b"notes");
    for page in ["/people", "/files", "/stats", "/coverage", "/search"] {
        browser.navigate(&site.at(page)).await;
        assert!(browser.is_visible("main h1").await, "{page}");
    }
    assert_no_errors_or_external_requests(&browser, &site).await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_messages_can_be_paged_in_both_directions() {
    let site = ServedSite::busy(1_000).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/c/T1/C1")).await;
    let timestamps_script =
        "return [...document.querySelectorAll('main [data-ts]')].map((message) => message.dataset.ts);";
    let all_timestamps = async |selector: &str| {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let found = browser.run_script(timestamps_script).await;
            seen.extend(found.as_array().unwrap().iter().map(|ts| ts.as_str().unwrap().to_owned()));
            if browser.find_all(selector).await.is_empty() {
                return seen;
            }
            browser.follow(selector).await;
        }
    };
    let everything: Vec<String> = (0..1_000).map(ts).collect();
    let mut up = all_timestamps("a[rel=prev]").await;
    up.sort();
    assert_eq!(up, everything);
    assert_eq!(all_timestamps("a[rel=next]").await, everything);
    assert_no_errors_or_external_requests(&browser, &site).await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn pages_can_be_used_with_the_keyboard_alone() {
    let site = ServedSite::busy(60).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    browser.navigate(&site.at("/c/T1/C1")).await;
    browser.press(TAB).await;
    assert_eq!(browser.run_script("return document.activeElement.className;").await, "skip");
    browser.press(ENTER).await;
    browser.press("c").await;
    assert_eq!(browser.run_script("return document.activeElement.id;").await, "channel-filter");
    browser.press(ESCAPE).await;
    browser.press("jj").await;
    let second = "return document.activeElement === document.querySelectorAll('main .message')[1];";
    assert_eq!(browser.run_script(second).await, true);
    browser.press("k").await;
    browser.press("p").await;
    browser.wait_for_address("?before=").await;
    assert_eq!(timestamps(&browser).await.last(), Some(&ts(9)));
    browser.press("n").await;
    browser.wait_for_address("?after=").await;
    assert_eq!(timestamps(&browser).await.last(), Some(&ts(59)));
    browser.navigate(&site.at(&format!("/c/T1/C1?around={}", ts(0)))).await;
    browser.press("jt").await;
    browser.wait_for_address("/t/").await;
    assert!(browser.text("aside").await.contains("the only reply"));
    // The key also works if a link in the message has the focus.
    browser.navigate(&site.at(&format!("/c/T1/C1?around={}", ts(0)))).await;
    browser.run_script("document.querySelector('main .message .time').focus();").await;
    browser.press("t").await;
    browser.wait_for_address("/t/").await;
    browser.press(ESCAPE).await;
    browser.wait_for_address("?around=").await;
    browser.find("main .target").await;
    assert!(browser.find_all("aside").await.is_empty(), "the thread is closed");
    browser.press("/").await;
    browser.press(&format!("number{ENTER}")).await;
    browser.wait_for_address("/search?q=number").await;
    assert!(!browser.find_all(".hit").await.is_empty());
    assert_no_errors_or_external_requests(&browser, &site).await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn many_channels_do_not_stretch_the_page() {
    let site = ServedSite::busy(60).await;
    for n in 10..70 {
        site.fixture.channel(&format!("C{n}"), &format!("big-{n}")).await;
        site.fixture.post(&format!("C{n}"), &ts(n), "text").await;
    }
    let browser = Browser::open(&BrowserSettings::default()).await;
    // The first page brings the index up to date, which has the counts.
    for path in ["/c/T1/C1", "/", "/files"] {
        browser.navigate(&site.at(path)).await;
        assert!(browser.is_visible(".count").await, "{path}");
        let height = browser.run_script("return [document.documentElement.scrollHeight, innerHeight];").await;
        assert!(height[0].as_u64() <= height[1].as_u64(), "{path}: {height}");
    }
    // The page has only some channels until the filter is empty.
    browser.navigate(&site.at("/?channels=big")).await;
    assert!(browser.find_all("[data-channel=C1]").await.is_empty());
    browser.run_script("const filter = document.getElementById('channel-filter'); filter.value = ''; filter.dispatchEvent(new Event('input'));").await;
    let all_are_shown = async { while browser.find_all("[data-channel=C1]").await.is_empty() {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), all_are_shown).await.unwrap();
    assert_no_errors_or_external_requests(&browser, &site).await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_screen_shows_one_pane_without_horizontal_scrolling() {
    let site = ServedSite::busy(60).await;
    let browser =
        Browser::open(&BrowserSettings { is_narrow: true, is_dark: true, ..BrowserSettings::default() })
            .await;
    let pages: [(&str, &str, &[&str]); 6] = [
        ("/", "nav.channels", &[]),
        ("/c/T1/C1", "main", &["nav.channels"]),
        ("/c/T1/C2", "main", &["nav.channels"]),
        (&format!("/t/T1/C1/{}", ts(0)), "aside", &["nav.channels", "main .timeline"]),
        ("/stats", "main", &["nav.channels"]),
        ("/files", "main", &["nav.channels"]),
    ];
    for (path, seen, unseen) in pages {
        browser.navigate(&site.at(path)).await;
        assert!(browser.is_visible(seen).await, "{path}");
        assert!(browser.is_visible("main h1").await, "{path}");
        for pane in unseen {
            assert!(!browser.is_visible(pane).await, "{path}: {pane}");
        }
        let width = browser.run_script("return [document.documentElement.scrollWidth, innerWidth];").await;
        assert!(width[0].as_u64() <= width[1].as_u64(), "{path}: {width}");
    }
    let background = browser.run_script("return getComputedStyle(document.body).backgroundColor;").await;
    assert_eq!(background, "rgb(23, 24, 26)", "it is dark");
    assert_no_errors_or_external_requests(&browser, &site).await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_without_scripts() {
    let site = ServedSite::busy(60).await;
    let browser =
        Browser::open(&BrowserSettings { without_scripts: true, ..BrowserSettings::default() }).await;
    browser.navigate(&site.at("/")).await;
    browser.type_into("#channel-filter", &format!("deploy{ENTER}")).await;
    browser.wait_for_address("?channels=deploy").await;
    browser.find("[data-channel=C2]").await;
    assert!(browser.find_all("[data-channel=C1]").await.is_empty());
    browser.follow("[data-channel=C2] a").await;
    assert!(browser.text("main").await.contains("let answer = 42;"));
    browser.type_into("#q", &format!("only reply{ENTER}")).await;
    browser.wait_for_address("/search?q=only+reply").await;
    browser.follow(".hit a.time").await;
    assert!(browser.text("aside .message:target").await.contains("the only reply"));
    browser.follow("aside .close").await;
    browser.find("main .message.target").await;
    browser.follow(".channel-head a[href*='/calendar']").await;
    browser.type_into("#day", "10032026").await;
    browser.follow(".day-form button").await;
    assert!(browser.address().await.ends_with("?day=2026-10-03"), "{}", browser.address().await);
    assert_eq!(timestamps(&browser).await.first(), Some(&ts(0)));

    browser.follow(".channel-head a[href$='/info']").await;
    browser.follow("aside a[href$='/threads']").await;
    browser.follow(".hit a.time").await;
    assert!(browser.text("aside").await.contains("the only reply"));
    browser.follow("aside .author a").await;
    browser.wait_for_address("/u/T1/U1").await;
    assert!(browser.text("main h1").await.contains("Ana Lima"));
    browser.follow("main a[href='/search?q=from:U1']").await;
    assert!(!browser.find_all(".hit").await.is_empty());
    browser.navigate(&site.at("/c/T1/C1/calendar?month=2026-10")).await;
    browser.follow(".calendar a[href$='?day=2026-10-03']").await;
    assert_eq!(timestamps(&browser).await.first(), Some(&ts(0)));
    browser.navigate(&site.at("/people")).await;
    browser.type_into(".file-filter [name=q]", &format!("okafor{ENTER}")).await;
    browser.wait_for_address("/people?q=okafor").await;
    browser.follow(".people a").await;
    browser.wait_for_address("/u/T1/U2").await;
    browser.navigate(&site.at("/files")).await;
    browser.type_into(".file-filter [name=q]", &format!("pixel{ENTER}")).await;
    browser.wait_for_address("q=pixel").await;
    assert_eq!(browser.find_all(".file-list li").await.len(), 1);
    browser.navigate(&site.at("/c/T1/C2")).await;
    assert!(!browser.is_visible(".copy-link").await);
    browser.follow(".picture").await;
    browser.wait_for_address("/files/T1/F1").await;
}

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn a_print_has_the_complete_text_without_navigation() {
    let site = ServedSite::busy(130).await;
    let settings = BrowserSettings { is_print: true, is_dark: true, ..BrowserSettings::default() };
    let browser = Browser::open(&settings).await;
    for path in ["/c/T1/C1", "/search?q=number", "/stats", "/files", "/coverage"] {
        browser.navigate(&site.at(path)).await;
        for navigation in [".top", "nav.channels", ".skip"] {
            assert!(!browser.is_visible(navigation).await, "{path}: {navigation}");
        }
        for navigation in ["main form", ".way a", ".ways"] {
            let shown = format!(
                "return [...document.querySelectorAll('{navigation}')].some((one) => one.checkVisibility());"
            );
            assert_eq!(browser.run_script(&shown).await, false, "{path}: {navigation}");
        }
        // Paper does not scroll, so nothing may be cut off.
        let cut = "return [...document.querySelectorAll('main, main *')].filter((one) => \
            getComputedStyle(one).overflowY !== 'visible' && one.scrollHeight > one.clientHeight + 1).map((one) => one.outerHTML.slice(0, 80));";
        assert_eq!(browser.run_script(cut).await, serde_json::json!([]), "{path}");
        let background = browser.run_script("return getComputedStyle(document.body).backgroundColor;").await;
        assert_eq!(background, "rgb(255, 255, 255)", "{path}: a dark background wastes ink");
    }
    browser.navigate(&site.at("/c/T1/C1")).await;
    let text = browser.text("main").await;
    for expected in ["#general", "message number 80", "message number 129", "Ana Lima", "2026"] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    browser.navigate(&site.at(&format!("/t/T1/C1/{}", ts(0)))).await;
    assert!(browser.is_visible("aside .message").await && browser.is_visible("main .message").await);
    assert_no_errors_or_external_requests(&browser, &site).await;
}

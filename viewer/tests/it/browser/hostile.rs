//! Messages that try to attack a reader.

use serde_json::json;

use super::site::ServedSite;
use crate::fixture::ViewerFixture;
use testkit::browser::{Browser, BrowserSettings};

#[cfg_attr(not(chromium), ignore = "there is no /usr/bin/chromium with /usr/bin/chromedriver")]
#[tokio::test(flavor = "multi_thread")]
async fn hostile_messages_have_no_effect() {
    let fixture = ViewerFixture::open();
    let markup =
        "<script>window.pwned = 1</script><img src=x onerror=\"window.pwned=1\"><svg/onload=alert(1)>";
    fixture.channel("C1", markup).await;
    fixture.person("U1", &format!("{markup}{}", "n".repeat(10_000))).await;
    fixture.post("C1", "1795000001.000100", markup).await;
    fixture
        .post("C1", "1795000002.000100", "<javascript:window.pwned=1|click> <https://evil.example/|go>")
        .await;
    fixture.post("C1", "1795000003.000100", &"\u{202e}words ".repeat(5_000)).await;
    fixture.post("C1", "1795000004.000100", &"&gt;".repeat(500)).await;
    for n in 0..1_000 {
        fixture.react("C1", "1795000004.000100", &format!("e{n}"), "U1").await;
    }
    let blocks = json!([{ "type": "rich_text", "elements": 7 }, null, { "type": "image", "image_url": "https://evil.example/x.png",
        "alt_text": markup }, { "type": "section", "text": { "type": "mrkdwn", "text": markup } }]);
    fixture.message("C1", json!({ "ts": "1795000005.000100", "text": "", "blocks": blocks })).await;
    let posing = json!({ "id": "F1", "name": "x.png", "mimetype": "image/png", "mode": "hosted" });
    fixture.share("C1", "1795000006.000100", posing, b"<html><script>window.pwned=1</script>").await;
    let site = ServedSite::serve(fixture).await;
    let browser = Browser::open(&BrowserSettings::default()).await;
    for path in ["/c/T1/C1", "/search?q=pwned", "/search?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E"] {
        browser.navigate(&site.at(path)).await;
        let scripts = browser
            .run_script("return [...document.scripts].map((script) => new URL(script.src).pathname);")
            .await;
        let scripts = scripts.as_array().unwrap();
        assert!(
            scripts.len() == 1 && scripts[0].as_str().unwrap().starts_with("/static/comfort-"),
            "{scripts:?}"
        );
        assert!(browser.run_script("return window.pwned === undefined;").await == true, "{path}");
        assert_eq!(browser.console_problems().await, [""; 0], "{path}");
    }
    browser.navigate(&site.at("/c/T1/C1")).await;
    let links = browser.run_script("return [...document.links].map((link) => link.protocol).filter((name) => !/^https?:$/.test(name));").await;
    assert_eq!(links, json!([]));
    for request in browser.requests().await {
        assert!(request.starts_with(&site.at("/")) || !request.starts_with("http"), "{request}");
    }
    // The file is downloaded and not opened, so the page stays.
    browser.navigate(&site.at("/c/T1/C1")).await;
    browser.click("a.file[download]").await;
    assert!(browser.address().await.ends_with("/c/T1/C1"));
    assert!(browser.run_script("return window.pwned === undefined;").await == true);
    assert!(site.fixture.page("/c/T1/C1").await.contains("x.png"));
}

//! Messages, names and queries that try to inject markup.

use ports::archive::ArchiveExt;
use serde_json::json;

use crate::fixture::ViewerFixture;

const MARKUP: &str =
    "<script>alert(1)</script><img src=x onerror=alert(1)>\" onmouseover=\"alert(1)' </style></title>";

/// The tags that pages may have, besides our script.
const ALLOWED_TAGS: &str = "!DOCTYPE a article aside b bdi blockquote body br button caption code dd \
    del details div dl dt em footer form h1 h2 h3 head header hr html img input ins label li line link main \
    mark meta nav ol option p pre rect s section select span strong summary svg table tbody td text th thead \
    time title tr ul";

/// Panics if a page has tags or attributes that pages must not have.
fn assert_inert(page: &str) {
    for tag in page.split('<').skip(1) {
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '!')
            .collect();
        if name == "script" {
            let is_ours = tag.starts_with("script src=\"/static/comfort-") || tag.starts_with("/script>");
            assert!(is_ours, "<{tag}");
            continue;
        }
        assert!(ALLOWED_TAGS.split(' ').any(|allowed| allowed == name), "<{tag}");
        let attributes = tag.split('>').next().unwrap().to_ascii_lowercase();
        // Quoted values are text.
        let outside: String = attributes.split('"').step_by(2).collect();
        assert!(!outside.contains(" on") && !outside.contains("style="), "<{tag}");
        for scheme in ["javascript:", "vbscript:", "data:"] {
            for attribute in ["href", "src", "action"] {
                assert!(!attributes.contains(&format!("{attribute}=\"{scheme}")), "<{tag}");
            }
        }
    }
}

#[tokio::test]
async fn markup_in_texts_names_and_queries_is_text() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", MARKUP).await;
    fixture.person("U1", MARKUP).await;
    let links = ["javascript:alert(1)", "data:text/html,x", MARKUP, "https://e.example/"];
    let listed: Vec<_> = links
        .iter()
        .enumerate()
        .map(|(n, link)| json!({ "id": format!("Bk{n}"), "title": MARKUP, "link": link }))
        .collect();
    let (team, channel, at) =
        ("T1".parse().unwrap(), "C1".parse().unwrap(), "1700000001.000000".parse().unwrap());
    for update in rules::bookmark::compare(&team, &channel, &listed, &[], &at).updates {
        fixture.archive().write(&update).await.unwrap();
    }
    fixture.emoji(MARKUP, "https://x.example/a.png", Some("ab")).await;
    for (n, text) in [
        MARKUP.to_owned(),
        MARKUP.replace('<', "&lt;").replace('>', "&gt;"),
        format!("<javascript:alert(1)|{MARKUP}> <data:text/html,x> <JAVASCRIPT:alert(1)> <https://e.example/\"onclick=\"x|y>"),
        format!("<@U1|{MARKUP}> <#C9|{MARKUP}> <!subteam^S1|{MARKUP}> <!{MARKUP}>"),
        format!("*{MARKUP}* _{MARKUP}_ `{MARKUP}` ```{MARKUP}``` :{MARKUP}:"),
    ]
    .iter()
    .enumerate()
    {
        fixture.post("C1", &format!("{}.000000", 1_700_001_000 + n), text).await;
    }
    let block = json!({ "type": "section", "text": { "type": "mrkdwn", "text": MARKUP },
        "accessory": { "type": "image", "image_url": "https://evil.example/x.png", "alt_text": MARKUP } });
    fixture
        .message("C1", json!({ "ts": "1700001010.000000", "text": "", "blocks": [block], "username": MARKUP,
            "attachments": [{ "title": MARKUP, "title_link": "javascript:alert(1)", "text": MARKUP, "color": MARKUP,
                "image_url": "https://evil.example/x.png", "footer": MARKUP }],
            "files": [{ "id": "F1", "name": MARKUP, "mimetype": MARKUP }] }))
        .await;
    fixture.react("C1", "1700001010.000000", "x\"><script>", "U1").await;
    fixture.edit("C1", "1700001000.000000", "1700001020.000000", &format!("{MARKUP} again")).await;
    for path in [
        "/c/T1/C1",
        "/",
        "/r/T1/C1/1700001000.000000",
        "/t/T1/C1/1700001000.000000",
        "/search?q=alert",
        "/search?q=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/search?q=in%3A%23%3Cscript%3E",
        "/?channels=%22%3E%3Cscript%3E",
        "/c/T1/C1/info",
        "/c/T1/C1/threads",
        "/u/T1/U1",
        "/files",
        "/files?q=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/files?from=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/files?type=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/search?q=alert&sort=%22%3E%3Cscript%3E",
        "/search?q=%22%3E%3Cscript%3E:x",
        "/coverage",
        "/stats",
        "/%3Cscript%3Ealert(1)%3C/script%3E",
    ] {
        let answer = fixture.get(path).await;
        assert_inert(&answer.body);
        assert!(!answer.body.contains("evil.example"), "{path} loads nothing from elsewhere");
    }
    let bookmarks = fixture.page("/c/T1/C1").await;
    assert!(bookmarks.contains("class=\"bookmarks\"") && bookmarks.contains("href=\"https://e.example/\""));
}

#[tokio::test]
async fn text_cannot_change_the_direction_of_adjacent_text() {
    let fixture = ViewerFixture::open();
    fixture.person("U1", "Ana\u{202e}\u{2066}").await;
    fixture.post("C1", "1700001000.000000", "pay \u{202e}moc.live\u{202c} \u{200b}now\u{0}\u{7}").await;
    let page = fixture.page("/c/T1/C1").await;
    assert!(!page.contains(['\u{202e}', '\u{202c}', '\u{2066}', '\u{0}', '\u{7}', '\u{200b}']));
    assert!(page.contains("<bdi class=\"author\"><a href=\"/u/T1/U1\">Ana") && page.contains("dir=\"auto\""));
}

#[tokio::test]
async fn large_amounts_of_data_are_shown_or_limited() {
    let fixture = ViewerFixture::open();
    let long_name = "n".repeat(10_000);
    fixture.person("U1", &long_name).await;
    fixture.channel("C1", &long_name[..300]).await;
    let words = "word ".repeat(8_000);
    fixture.post("C1", "1700001000.000000", &words).await;
    fixture.post("C1", "1700001001.000000", &"&gt;".repeat(500)).await;
    fixture.post("C1", "1700001002.000000", &"*_~`".repeat(10_000)).await;
    let mut nested = json!({ "type": "text", "text": "deep" });
    for _ in 0..500 {
        nested = json!({ "type": "rich_text_quote", "elements": [nested] });
    }
    fixture
        .message("C1", json!({ "ts": "1700001003.000000", "text": "in words", "blocks": [{ "type": "rich_text", "elements": [nested] }] }))
        .await;
    for (n, blocks) in
        [json!(7), json!([null, [], "x", { "type": 7 }]), json!([{ "type": "rich_text", "elements": {} }])]
            .into_iter()
            .enumerate()
    {
        let ts = format!("{}.000000", 1_700_001_010 + n);
        fixture.message("C1", json!({ "ts": ts, "text": format!("fallback {n}"), "blocks": blocks })).await;
    }
    for n in 0..1_000 {
        fixture.react("C1", "1700001001.000000", &format!("emoji-{n}"), "U1").await;
    }
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(
        page.matches("word ").count() + usize::from(page.contains("word<")),
        8_000,
        "all of it is shown"
    );
    assert!(!page.contains(&"n".repeat(100)) && page.contains(&"n".repeat(80)));
    assert!(page.contains("and 900 more"));
    for n in 0..3 {
        assert!(page.contains(&format!("fallback {n}")), "broken blocks have their text");
    }
    assert!(page.contains("in words"));
    assert_inert(&page);
    assert!(page.len() < 400_000, "{}", page.len());
}

#[tokio::test]
async fn a_link_with_a_deceptive_label_shows_its_address() {
    let fixture = ViewerFixture::open();
    fixture
        .post(
            "C1",
            "1700001000.000000",
            "<https://evil.test/login|bank.example> <https://a.example/x|see here>",
        )
        .await;
    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains(">bank.example (https://evil.test/login)</a>"), "{page}");
    assert!(page.contains(">see here</a>"));
    let texts = [
        "<https://evil.test/?bank.example|bank.example>",
        "<https://evil.test/| https://bank.example>",
        "<https://evil.test/|https://bank.example/login page>",
    ];
    fixture.post("C1", "1700001001.000000", &texts.join(" ")).await;
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(page.matches(" (https://evil.test/").count(), 4, "{page}");
}

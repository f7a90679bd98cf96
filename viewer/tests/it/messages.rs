//! The rendering of messages.

use ports::archive::ArchiveExt;
use rules::organisation;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::fixture::ViewerFixture;

async fn page_of(fields: serde_json::Value) -> String {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.person("U1", "Ana Lima").await;
    fixture.message("C1", fields).await;
    fixture.page("/c/T1/C1").await
}

#[tokio::test]
async fn markup_and_mentions_look_like_in_slack() {
    let page = page_of(json!({ "ts": "1700001000.000100",
        "text": "*bold* <@U1> <#C1> <https://example.com/a|there> :tada:\n&gt; said\n```let x;\n  y```" }))
    .await;
    for expected in [
        "<strong>bold</strong>",
        "<a href=\"/u/T1/U1\"><bdi class=\"mention\">@Ana Lima</bdi></a>",
        "<a href=\"/c/T1/C1\"><bdi class=\"mention\">#general</bdi></a>",
        "<a href=\"https://example.com/a\" rel=\"noopener noreferrer\">there</a>",
        "<span class=\"emoji\" title=\":tada:\">🎉</span>",
        "<blockquote><p>said</p></blockquote>",
        "<code>let x;\n  y</code></pre>",
        "<bdi class=\"author\"><a href=\"/u/T1/U1\">Ana Lima</a></bdi>",
        "aria-hidden=\"true\">AL</span>",
        "<time datetime=\"2023-11-14T22:30:00.0001Z\" title=\"2023-11-14 22:30:00\">22:30</time>",
    ] {
        assert!(page.contains(expected), "{expected} is not in {page}");
    }
}

#[tokio::test]
async fn a_person_of_another_organisation_is_shown_with_its_name() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let profile = json!({ "display_name": "Pat <b>", "team": "T2" });
    fixture
        .message(
            "C1",
            json!({ "ts": "1700001000.000100", "text": "hi", "user": "U0PAT", "user_profile": profile }),
        )
        .await;
    let (team, other) = (TeamId::parse("T1").unwrap(), TeamId::parse("T2").unwrap());
    assert!(fixture.page("/c/T1/C1").await.contains("<a href=\"/u/T1/U0PAT\">Pat &lt;b&gt;</a>"));
    let acme = json!({ "id": "T2", "name": "Acme & Co" });
    let answered =
        organisation::answered(&team, &other, Some(&acme), &Ts::parse("1700000001.000000").unwrap());
    fixture.archive().write(&answered).await.unwrap();
    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains("<a href=\"/u/T1/U0PAT\">Pat &lt;b&gt; (Acme &amp; Co)</a>"), "{page}");
}

/// Even if nothing else on the page mentions a channel.
#[tokio::test]
async fn a_slack_link_also_links_to_the_message_in_the_archive() {
    let slack_link = "https://acme.slack.com/archives/C1/p1700001000000100";
    let page = page_of(json!({ "ts": "1700001000.000100", "text": format!("see <{slack_link}>") })).await;
    let expected = format!(
        "<a href=\"{slack_link}\" rel=\"noopener noreferrer\">{slack_link}</a> <a href=\"/archives/C1/p1700001000000100\">(in this archive)</a>"
    );
    assert!(page.contains(&expected), "{page}");
    let other_links = "<https://acme.slack.com/archives/C9/p1700001000000100> <https://example.com/archives/C1/p1700001000000100>";
    let page = page_of(json!({ "ts": "1700001000.000100", "text": other_links })).await;
    assert!(!page.contains("(in this archive)"), "{page}");
}

#[tokio::test]
async fn blocks_replace_their_fallback_text() {
    let words = |text: &str| json!({ "type": "text", "text": text });
    let section = |text: &str| json!({ "type": "rich_text_section", "elements": [words(text)] });
    let page = page_of(json!({ "ts": "1700001000.000100", "text": "not this", "blocks": [
        { "type": "header", "text": { "type": "plain_text", "text": "Build" } },
        { "type": "rich_text", "elements": [
            { "type": "rich_text_section", "elements": [{ "type": "emoji", "name": "wave", "skin_tone": 3 },
                { "type": "text", "text": "struck", "style": { "strike": true } }] },
            { "type": "rich_text_list", "style": "bullet", "indent": 0, "elements": [section("one"), section("two\nmore")] },
            { "type": "rich_text_list", "style": "ordered", "indent": 1, "offset": 4, "elements": [section("five")] },
            { "type": "rich_text_quote", "elements": [words("quoted")] },
            { "type": "rich_text_preformatted", "elements": [words("if x {\n\ty\n}")] },
        ] },
        { "type": "divider" },
        { "type": "table", "rows": [[{ "type": "raw_text", "text": "a" }, { "type": "raw_text", "text": "b" }]] },
        { "type": "context", "elements": [{ "type": "mrkdwn", "text": "beside" }] },
    ], "attachments": [{ "color": "danger", "title": "Failed", "title_link": "https://ci.example/7", "text": "in *main*", "mrkdwn_in": ["text"] },
        { "from_url": "https://example.com", "service_name": "Example", "title": "A page", "text": "of it" }] }))
    .await;
    for expected in [
        "<p class=\"heading\">Build</p>",
        "title=\":wave:\">👋🏼</span><s>struck</s>",
        "<ul class=\"level-0\"><li>one</li><li>two<br>more</li></ul>",
        "<ol class=\"level-1\" type=\"a\" start=\"5\"><li>five</li></ol>",
        "<blockquote><p>quoted</p></blockquote>",
        "<code>if x {\n    y\n}</code></pre>",
        "<hr>",
        "<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table>",
        "<p class=\"context\">beside</p>",
        "<div class=\"attachment danger\"><p class=\"heading\"><a href=\"https://ci.example/7\" rel=\"noopener noreferrer\">Failed</a></p><p>in <strong>main</strong></p></div>",
        "<div class=\"attachment plain\"><p class=\"context\">Example</p><p class=\"heading\">A page</p><p>of it</p></div>",
    ] {
        assert!(page.contains(expected), "{expected} is not in {page}");
    }
    assert!(!page.contains("not this"));
}

/// The file store does not have these pictures, because Slack fetched them from other sites.
#[tokio::test]
async fn pictures_of_previews_are_described_and_not_loaded() {
    let picture = "https://pictures.example/cat.png";
    let page = page_of(json!({ "ts": "1700001000.000100", "text": "<https://example.com/cat>",
        "blocks": [{ "type": "image", "image_url": picture, "alt_text": "a cat asleep" }],
        "attachments": [
            { "from_url": "https://example.com/cat", "original_url": "https://example.com/cat", "service_name": "Example", "service_icon": picture,
                "title": "The cat", "title_link": "https://example.com/cat", "text": "It sleeps.", "image_url": picture,
                "thumb_url": picture, "author_icon": picture, "footer_icon": picture },
            { "fallback": "a chart of naps", "image_url": picture },
        ] }))
    .await;
    for expected in ["[image: a cat asleep]", ">The cat</a>", "It sleeps.", "Example", "a chart of naps"] {
        assert!(
            page.replace("<span class=\"control\">", "[").replace("</span>", "]").contains(expected),
            "{expected} is not in {page}"
        );
    }
    assert!(!page.contains("pictures.example"), "{page}");
}

#[tokio::test]
async fn a_pinned_message_is_marked_and_listed_at_the_head_of_its_channel() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.post("C1", "1700001000.000000", "the &lt;rules&gt; of *the house*").await;
    fixture.post("C1", "1700001001.000000", "not pinned").await;
    assert!(!fixture.page("/c/T1/C1").await.contains("pinned</summary>"));
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let item =
        json!({ "created": 1_700_000_000, "created_by": "U1", "message": { "ts": "1700001000.000000" } });
    let (ts, pin) = rules::pin::in_list(&item).unwrap();
    for update in pin.updates(&team, &channel, &ts) {
        fixture.archive().write(&update).await.unwrap();
    }
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(page.matches("(pinned)").count(), 1);
    assert!(page.contains("<summary>1 pinned</summary>"), "{page}");
    assert!(page.contains("<bdi>the &lt;rules&gt; of *the house*</bdi>"), "{page}");
}

#[tokio::test]
async fn edits_open_their_versions_and_deletions_are_marked() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.post("C1", "1700001000.000000", "the first words").await;
    fixture.edit("C1", "1700001000.000000", "1700001010.000000", "the second words").await;
    fixture.edit("C1", "1700001000.000000", "1700001020.000000", "the last words").await;
    fixture.post("C1", "1700001001.000000", "taken back").await;
    fixture.delete("C1", "1700001001.000000", "1700001030.000000").await;
    fixture.delete("C1", "1700001002.000000", "1700001030.000000").await;
    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains("<a class=\"edited\" href=\"/r/T1/C1/1700001000.000000\">(edited)</a>"), "{page}");
    assert!(page.contains("the last words") && !page.contains("the first words"));
    assert_eq!(page.matches("class=\"message deleted").count(), 2);
    assert!(page.contains("taken back") && page.contains("deleted before it was archived"));
    let versions = fixture.page("/r/T1/C1/1700001000.000000").await;
    let positions =
        ["the first words", "the second words", "the last words"].map(|words| versions.find(words).unwrap());
    assert!(positions.is_sorted() && versions.matches("data-version").count() == 3);
    assert!(versions.contains("2023-11-14 22:30:20") && versions.contains("– now"));
    assert!(versions.contains("the <del>first</del><ins>second</ins> words"), "{versions}");
    assert!(versions.contains("the <del>second</del><ins>last</ins> words"), "{versions}");
    assert!(fixture.page("/r/T1/C1/1700001001.000000").await.contains("never edited"));
    assert_eq!(fixture.get("/r/T1/C1/1700001003.000000").await.status, 404);
}

#[tokio::test]
async fn a_person_who_is_shown_under_another_name_has_the_real_one_as_the_title() {
    let fixture = ViewerFixture::open();
    let ana = json!({ "real_name": "Ana \"x\" Gomez", "profile": { "display_name": "ana" } });
    fixture.account("U1", "1700000001.000000", ana).await;
    fixture.account("U2", "1700000001.000000", json!({ "real_name": "Bo" })).await;
    fixture.post("C1", "1700001000.000000", "as <@U1> and <@U2> said").await;
    let page = fixture.page("/c/T1/C1").await;
    let title = "title=\"Ana &quot;x&quot; Gomez\"";
    assert!(page.contains(&format!("<bdi class=\"author\" {title}>")), "{page}");
    assert!(page.contains(&format!("<bdi class=\"mention\" {title}>@ana</bdi>")), "{page}");
    assert!(page.contains("<bdi class=\"mention\">@Bo</bdi>"), "{page}");
}

#[tokio::test]
async fn reactions_name_people_and_custom_emoji_are_pictures() {
    let fixture = ViewerFixture::open();
    fixture.person("U1", "Ana").await;
    fixture.person("U2", "Ben").await;
    fixture.post("C1", "1700001000.000000", "look :shipped: :ship-it: :unknown:").await;
    fixture.emoji("shipped", "https://emoji.example/a.png", Some("abc123")).await;
    fixture.emoji("ship-it", "alias:shipped", None).await;
    fixture.emoji("yay", "alias:tada", None).await;
    for (name, user) in
        [("shipped", "U1"), ("thumbsup::skin-tone-4", "U1"), ("thumbsup::skin-tone-4", "U2"), ("yay", "U2")]
    {
        fixture.react("C1", "1700001000.000000", name, user).await;
    }
    let page = fixture.page("/c/T1/C1").await;
    let picture = |name: &str| {
        format!(
            "<img class=\"emoji\" src=\"/pictures/T1/abc123\" alt=\":{name}:\" title=\":{name}:\" loading=\"lazy\">"
        )
    };
    assert!(page.contains(&picture("shipped")) && page.contains(&picture("ship-it")), "{page}");
    assert!(page.contains(":unknown:"));
    assert!(page.contains("<li title=\":thumbsup: Ana, Ben\">") && page.contains("👍🏽"), "{page}");
    assert!(
        page.contains(
            "<li title=\":yay: Ben\"><details><summary><span class=\"emoji\" title=\":yay:\">🎉</span>"
        ),
        "{page}"
    );
}

#[tokio::test]
async fn messages_in_quick_succession_name_their_author_once() {
    let fixture = ViewerFixture::open();
    fixture.person("U1", "Ana").await;
    for ts in ["1700001000.000000", "1700001060.000000", "1700001400.000000"] {
        fixture.post("C1", ts, "text").await;
    }
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(page.matches("<bdi class=\"author\"><a href=\"/u/T1/U1\">Ana</a></bdi>").count(), 2);
    assert_eq!(page.matches("class=\"message goes-on\"").count(), 1);
    // A message with marks has its own line for them.
    fixture.edit("C1", "1700001060.000000", "1700001070.000000", "text again").await;
    assert!(!fixture.page("/c/T1/C1").await.contains("goes-on"));
}

#[tokio::test]
async fn a_person_with_a_stored_picture_is_shown_with_it() {
    let fixture = ViewerFixture::open();
    fixture.person_with_picture("U1", "Ana", "abc123").await;
    fixture.post("C1", "1700001000.000000", "text").await;
    let page = fixture.page("/c/T1/C1").await;
    let picture = "<img class=\"avatar\" src=\"/pictures/T1/abc123\" alt=\"\" loading=\"lazy\" width=\"36\" height=\"36\">";
    assert!(page.contains(picture) && !page.contains("initials"), "{page}");
}

#[tokio::test]
async fn a_message_longer_than_a_screen_is_folded_and_complete() {
    let short = "word ".repeat(400);
    assert!(!page_of(json!({ "ts": "1700001000.000100", "text": short })).await.contains("class=\"more\""));
    for text in ["word ".repeat(700), "line\n".repeat(40), "\u{202e}\n\n".repeat(100)] {
        let page = page_of(json!({ "ts": "1700001000.000100", "text": format!("{text}the end") })).await;
        assert!(
            page.contains("class=\"text long\"") && page.contains("Show more") && page.contains("the end"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn an_attachment_has_the_colour_that_its_app_gave_it_if_it_is_one() {
    for (color, stripe) in
        [("#439FE0", 1), ("439fe0", 1), ("good", 0), ("#fff\"><script>", 0), ("#12345é", 0)]
    {
        let attachment = json!({ "color": color, "text": "passed" });
        let page = page_of(json!({ "ts": "1700001000.000100", "attachments": [attachment] })).await;
        let shown =
            page.to_lowercase().matches("<rect width=\"100%\" height=\"100%\" fill=\"#439fe0\">").count();
        assert_eq!((shown, page.contains("<script>")), (stripe, false), "{color}: {page}");
    }
}

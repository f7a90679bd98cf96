//! The search page.

use serde_json::json;

use crate::fixture::{ViewerFixture, timestamps};

async fn searchable() -> ViewerFixture {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.person("U1", "Ana").await;
    for n in 0..45 {
        fixture
            .post(
                "C1",
                &format!("{}.000000", 1_700_001_000 + n),
                &format!("deploy number {n} &lt;b&gt;done&lt;/b&gt;"),
            )
            .await;
    }
    fixture.reply("C1", "1700001050.000000", "1700001000.000000", "a reply about deploys").await;
    // A page lets the index catch up for a moment only, in which a busy machine may write less.
    fixture.index_messages().await;
    fixture
}

#[tokio::test]
async fn hits_are_marked_and_link_to_their_messages() {
    let fixture = searchable().await;
    let page = fixture.page("/search?q=deploy+number").await;
    assert_eq!(timestamps(&page).len(), 20);
    assert_eq!(timestamps(&page)[0], "1700001044.000000", "the newest first");
    assert!(page.contains("<mark>deploy</mark> <mark>number</mark> 44 &lt;b&gt;done&lt;/b&gt;"), "{page}");
    let address = "/c/T1/C1?around=1700001044.000000&amp;q=deploy%20number#m1700001044.000000";
    assert!(page.contains(&format!("<a class=\"time\" href=\"{address}\"")), "{page}");
    assert!(page.contains("about 45 messages"), "{page}");
    assert!(page.contains("name=\"q\" type=\"search\" value=\"deploy number\""));
    let second = fixture.page("/search?q=deploy+number&page=2").await;
    assert_eq!(timestamps(&second)[0], "1700001024.000000");
    let third = fixture.page("/search?q=deploy+number&page=3").await;
    assert!(timestamps(&third).len() == 5 && !third.contains("Older"));
    let reply = fixture.page("/search?q=reply").await;
    assert!(reply.contains("href=\"/t/T1/C1/1700001050.000000?q=reply#t1700001050.000000\""), "{reply}");
    assert!(reply.contains("1 message ·") && !reply.contains("about 1"), "{reply}");
}

#[tokio::test]
async fn a_new_message_is_found_at_once_and_an_unknown_name_is_an_error() {
    let fixture = searchable().await;
    fixture.post("C1", "1700002000.000000", "freshly written").await;
    assert_eq!(
        timestamps(&fixture.page("/search?q=freshly+from%3A%40Ana+in%3A%23general").await),
        ["1700002000.000000"]
    );
    assert!(fixture.page("/search?q=nosuchword").await.contains("Nothing was found."));
    let answer = fixture.get("/search?q=from%3A%40anna").await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("role=\"alert\"") && answer.body.contains("ana"), "{}", answer.body);
}

#[tokio::test]
async fn an_unusable_index_is_a_server_error() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "deploy").await;
    fixture.break_index();
    let answer = fixture.get("/search?q=deploy").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("The search index cannot be used"), "{}", answer.body);
    assert!(
        fixture.page("/c/T1/C1").await.contains("data-ts=\"1700001000.000000\""),
        "pages work without the index"
    );
    assert_eq!(fixture.get("/search").await.status, 200);
}

#[tokio::test]
async fn a_search_can_be_narrowed_ranked_and_started_in_a_channel() {
    let fixture = searchable().await;
    fixture.channel("C2", "plans").await;
    fixture.post("C2", "1700003000.000000", "deploy in plans").await;
    let page = fixture.page("/search?q=deploy").await;
    for chip in ["in:C1", "in:C2", "from:U1", "has:file"] {
        let address = format!("href=\"/search?q=deploy%20{}\"", chip.replace(':', "%3A"));
        assert!(page.contains(&address), "{address} is not in {page}");
    }
    let narrowed = fixture.page("/search?q=deploy%20in%3AC2").await;
    assert!(timestamps(&narrowed) == ["1700003000.000000"] && !narrowed.contains(">#plans</bdi></a></li>"));
    assert!(page.contains("<a href=\"/search?q=deploy&amp;sort=best\">best first</a>"), "{page}");
    let best = fixture.page("/search?q=deploy&sort=best").await;
    assert!(best.contains("<strong>best first</strong>") && timestamps(&best).len() == 20, "{best}");
    assert!(best.contains("<input type=\"hidden\" name=\"sort\" value=\"best\">"), "{best}");

    let channel = fixture.page("/c/T1/C2").await;
    assert!(channel.contains("<input type=\"checkbox\" name=\"in\" value=\"C2\">"), "{channel}");
    assert!(!page.contains("name=\"in\""), "{page}");
    assert_eq!(
        fixture.redirect_target("/search?q=deploy+now&in=C2").await,
        "/search?q=deploy%20now%20in%3AC2"
    );
    assert_eq!(fixture.redirect_target("/search?q=&in=%22%0d%0a").await, "/search?q=%20in%3A%22%0D%0A");

    let hints = fixture.page("/search?q=to%3Aana+AND+deploy+https%3A%2F%2Fx").await;
    for word in ["to:ana", "AND"] {
        assert!(hints.contains(&format!("<code>{word}</code> is read as words")), "{word}: {hints}");
    }
    assert_eq!(hints.matches("is read as words").count(), 2);
}

#[tokio::test]
async fn the_first_page_shows_what_is_held_and_what_is_new() {
    let fixture = searchable().await;
    for n in 0..12 {
        fixture.channel(&format!("C{}", n + 20), &format!("busy-{n}")).await;
        fixture.post(&format!("C{}", n + 20), &format!("{}.000000", 1_700_100_000 + n), "text").await;
    }
    let file = json!({ "id": "F1", "name": "<b>plan</b>.pdf", "size": 3 });
    fixture.share("C21", "1700300000.000000", file, b"pdf").await;
    fixture.index_messages().await;
    let page = fixture.page("/").await;
    let (_, main) = page.split_once("<main").unwrap();
    let channels: Vec<&str> =
        main.split("<bdi>#").skip(1).filter_map(|rest| rest.split('<').next()).take(10).collect();
    assert_eq!(channels[..2], ["busy-1", "busy-11"]);
    assert!(main.contains("13 channels, from 14 Nov 2023 to 18 Nov 2023."), "{main}");
    assert!(
        main.contains("&lt;b&gt;plan&lt;/b&gt;.pdf") && main.contains("/c/T1/C21?around=1700300000.000000")
    );
}

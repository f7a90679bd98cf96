//! The search page.

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
    fixture
}

#[tokio::test]
async fn hits_are_marked_and_link_to_their_messages() {
    let fixture = searchable().await;
    let page = fixture.page("/search?q=deploy+number").await;
    assert_eq!(timestamps(&page).len(), 20);
    assert_eq!(timestamps(&page)[0], "1700001044.000000", "the newest first");
    assert!(page.contains("<mark>deploy</mark> <mark>number</mark> 44 &lt;b&gt;done&lt;/b&gt;"), "{page}");
    assert!(page.contains("href=\"/c/T1/C1?around=1700001044.000000#m1700001044.000000\""));
    assert!(page.contains("name=\"q\" type=\"search\" value=\"deploy number\""));
    let second = fixture.page("/search?q=deploy+number&page=2").await;
    assert_eq!(timestamps(&second)[0], "1700001024.000000");
    let third = fixture.page("/search?q=deploy+number&page=3").await;
    assert!(timestamps(&third).len() == 5 && !third.contains("Older"));
    let reply = fixture.page("/search?q=reply").await;
    assert!(reply.contains("href=\"/t/T1/C1/1700001050.000000#t1700001050.000000\""), "{reply}");
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

//! The channels beside each page.

use crate::fixture::Fixture;

#[tokio::test]
async fn channels_have_their_marks_and_the_number_of_their_messages() {
    let fixture = Fixture::open();
    for (id, name) in [("C1", "general"), ("C2", "secret"), ("C3", "old"), ("C4", "gone")] {
        fixture.channel(id, name).await;
    }
    fixture.channel_event("channel_archive", "C3").await;
    fixture.channel_event("channel_deleted", "C4").await;
    for n in 0..12 {
        fixture.post("C1", &format!("{}.000000", 1000 + n), "text").await;
    }
    fixture.message("C2", serde_json::json!({ "ts": "1.000000", "text": "public" })).await;
    let page = fixture.page("/c/T1/C1").await;
    let of = |id: &str| {
        let (_, rest) = page.split_once(&format!("data-channel=\"{id}\"")).unwrap();
        rest.split("</li>").next().unwrap().to_owned()
    };
    assert!(of("C1").contains("aria-current=\"page\"") && of("C1").contains("12<span"), "{}", of("C1"));
    assert!(of("C3").contains("<span class=\"mark\">archived</span>"), "{}", of("C3"));
    assert!(!of("C2").contains("class=\"mark\""));
    let deleted = of("C4");
    assert!(deleted.contains(">gone</bdi> <span class=\"mark\">deleted</span>"), "{deleted}");
    let (_, archived) = page.split_once("<h2 class=\"quiet\">Archived</h2>").unwrap();
    assert!(archived.contains("data-channel=\"C3\"") && !archived.contains("data-channel=\"C1\""));
}

#[tokio::test]
async fn the_filter_works_without_a_script() {
    let fixture = Fixture::open();
    for (id, name) in [("C1", "general"), ("C2", "deploys")] {
        fixture.channel(id, name).await;
        fixture.post(id, "1.000000", "text").await;
    }
    let page = fixture.page("/?channels=DEP").await;
    assert!(page.contains("data-channel=\"C2\"") && !page.contains("data-channel=\"C1\""));
    assert!(page.contains("name=\"channels\" type=\"search\" value=\"DEP\""));
    assert!(fixture.page("/?channels=zzz").await.contains("There are no such channels."));
}

#[tokio::test]
async fn an_empty_archive_has_a_page() {
    let fixture = Fixture::open();
    for path in ["/", "/search", "/search?q=word", "/files", "/coverage"] {
        assert!(fixture.page(path).await.contains("<h1>"), "{path}");
    }
    assert_eq!(fixture.get("/stats").await.status, 404);
}

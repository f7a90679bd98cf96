//! The search of a site.

use super::*;

/// A program that is called as Pagefind is. Its fragments are the pages, and its index changes with each run.
const FAKE_PAGEFIND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/publish/fake_pagefind.sh");

#[tokio::test]
async fn a_part_of_the_search_is_made_again_only_if_one_of_its_pages_changed() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let year = -365 * 86_400;
    fixture.post("T1", "C1", &ts(0), "new words").await;
    fixture.post("T1", "C1", &ts(1), "erased words").await;
    fixture.post("T1", "C1", &ts(year), "old words").await;
    write_as(&fixture, "U2", "C1", &ts(2), "words of bob").await;
    let search = ["--channel", "general", "--pagefind", FAKE_PAGEFIND];
    let planned = site.publish(&fixture, &[&search[..], &["--dry-run"]].concat()).await;
    assert!(planned["would_write"].as_array().unwrap().contains(&json!("search/2026/")), "{planned}");
    let summary = site.publish(&fixture, &search).await;
    assert_eq!((&summary["search"], &summary["files"]), (&json!("built"), &json!(site.files().len())));
    assert_eq!(site.file("search/parts.json"), r#"["2026","2025"]"#);
    assert!(site.file("c/general/2026-11.html").contains("action=\"../../search/index.html\""));
    assert!(site.file("sitemap-site.xml").contains("search/index.html</loc>"));
    assert!(!site.path().join("search/2026/pagefind-ui.js").exists(), "no page needs it");
    assert_links_resolve(&site);
    site.run(&fixture, &[&search[..], &["--check"]].concat()).await.unwrap();
    let again = site.publish(&fixture, &search).await;
    assert_eq!((&again["search"], &again["written"]), (&json!("unchanged"), &json!(0)));
    let run_of = |part: &str| site.file(&format!("search/{part}/index/run.pf_index"));
    let before = [run_of("2025"), run_of("2026")];
    fixture.erase("C1", &ts(1)).await;
    fixture.advance();
    wish_of(&fixture, &["opt-out", "bob"]).await;
    site.publish(&fixture, &search).await;
    assert_eq!(before[0], run_of("2025"));
    assert_ne!(before[1], run_of("2026"));
    for absent in ["erased words", "words of bob"] {
        assert_eq!(site.with(absent), [""; 0], "{absent}");
    }
    fixture.delete("T1", "C1", &ts(year), &ts(10)).await;
    site.publish(&fixture, &search).await;
    assert!(!site.path().join("search/2025").exists());
    assert_eq!(site.file("search/parts.json"), r#"["2026"]"#);
    let without = site.publish(&fixture, &["--channel", "general", "--search", "off"]).await;
    assert_eq!(without["search"], "off");
    assert!(!site.path().join("search").exists());
    assert!(!site.file("c/general/2026-11.html").contains("role=\"search\""));
    assert!(!site.path().join(".annalist/stage").exists());
}

#[tokio::test]
async fn a_site_is_complete_without_a_search_that_fails_or_is_missing() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    let missing = ["--channel", "general", "--pagefind", "/no/such/program"];
    let error =
        site.run(&fixture, &[&missing[..], &["--search", "on"]].concat()).await.unwrap_err().to_string();
    assert!(error.contains("--search off") && !site.path().exists(), "{error}");
    assert_eq!(site.publish(&fixture, &missing).await["search"], "missing");
    let search = ["--channel", "general", "--pagefind", FAKE_PAGEFIND];
    site.publish(&fixture, &search).await;
    fixture.post("T1", "C1", &ts(1), "this fails Pagefind").await;
    for _ in 0..2 {
        let error = site.run(&fixture, &search).await.unwrap_err().to_string();
        assert!(error.contains("2026: too many words"), "{error}");
        assert!(site.file("c/general/2026-11.html").contains("this fails"));
        assert!(!site.path().join("search/2026").exists());
        assert_eq!(site.file("search/parts.json"), "[]");
    }
    fixture.erase("C1", &ts(1)).await;
    assert_eq!(site.publish(&fixture, &search).await["search"], "built");
    assert_eq!(site.file("search/parts.json"), r#"["2026"]"#);
}

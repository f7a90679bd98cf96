//! The pages of a site: months, days, threads, names and addresses.

use viewer::public_links::thread_page;

use super::*;

#[tokio::test]
async fn a_site_has_a_page_for_each_month_and_thread_with_links_that_lead_somewhere() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "hello <@U2|robert> in <#C2|secret-plans> and <#C1>").await;
    fixture.reply("T1", "C1", &ts(60), &ts(0), "a reply &amp; &lt;/script&gt;").await;
    fixture.post("T1", "C1", &ts(-40 * 86_400), "older").await;
    fixture.post("T1", "C2", &ts(1), "hidden words").await;
    let summary = site.publish(&fixture, &["--channel", "general"]).await;
    assert_eq!((&summary["channels"], &summary["deleted"]), (&json!(1), &json!(0)));
    let page = site.file("c/general/2026-11.html");
    assert!(page.contains("@bob") && !page.contains("robert") && page.contains("#another-channel"), "{page}");
    let thread = format!("c/general/2026-11/{}.html", ts(0).replace('.', ""));
    let thread = site.file(&thread);
    let canonical =
        format!("<link rel=\"canonical\" href=\"{URL}c/general/2026-11/{}.html\">", ts(0).replace('.', ""));
    assert!(thread.contains(&canonical) && thread.contains("a reply &amp; &lt;/script&gt;"), "{thread}");
    assert!(
        thread.contains("DiscussionForumPosting") && thread.contains("\\u003c/script\\u003e"),
        "{thread}"
    );
    for absent in ["hidden words", "secret-plans", "C2", "U1", "U2"] {
        assert_eq!(site.with(absent), [""; 0], "{absent}");
    }
    assert_links_resolve(&site);
    let again = site.publish(&fixture, &["--channel", "general"]).await;
    assert_eq!((&again["written"], &again["unchanged"]), (&json!(0), &summary["files"]));
}

#[tokio::test]
async fn a_busy_month_has_a_page_for_each_day_and_a_busy_day_several() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post_all("T1", "C1", &(0..1_003).map(ts).collect::<Vec<_>>()).await;
    fixture.post("T1", "C1", &ts(86_400), "next day").await;
    fixture.post("T1", "C1", &ts(40 * 86_400), "next month").await;
    site.publish(&fixture, &["--all-public"]).await;
    let names: Vec<String> =
        site.files().into_keys().filter(|path| path.starts_with("c/general/2026-1")).collect();
    let expected =
        ["2026-11-20-2.html", "2026-11-20.html", "2026-11-21.html", "2026-11.html", "2026-12.html"];
    assert_eq!(names, expected.map(|name| format!("c/general/{name}")));
    assert!(site.file("c/general/2026-12.html").contains("href=\"2026-11.html\""));
    assert!(site.file("c/general/2026-11-21.html").contains("href=\"2026-12.html\""));
    // No page lists the channels that the form asks for.
    assert!(site.file("index.html").contains("<form class=\"filter scripted\""));
    assert_links_resolve(&site);
}

#[tokio::test]
async fn a_renamed_channel_keeps_its_addresses_and_its_new_name_leads_there() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    site.publish(&fixture, GENERAL).await;
    fixture.rename("T1", "C1", &ts(10), "lobby").await;
    site.publish(&fixture, &["--channel", "lobby"]).await;
    assert!(site.file("c/general/2026-11.html").contains("#lobby"));
    let redirect = site.file("c/lobby/index.html");
    assert!(redirect.contains("0; url=../general/index.html") && redirect.contains("noindex"), "{redirect}");
    let maps = [site.file("sitemap-site.xml"), site.file("c/general/sitemap-1.xml")].concat();
    assert!(maps.contains("/c/general/2026-11.html</loc>") && !maps.contains("lobby"), "{maps}");
    assert_links_resolve(&site);
}

#[tokio::test]
async fn pseudonyms_stay_and_no_name_or_id_is_left() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "hello <@U2> and <@U2|bob>").await;
    let pseudonyms = [GENERAL, &["--names", "pseudonym"]].concat();
    site.publish(&fixture, &pseudonyms).await;
    for name in ["ana", "bob", "U1", "U2"] {
        assert_eq!(site.with(name), [""; 0], "{name}");
    }
    let fresh = PublishedSite::new();
    fresh.publish(&fixture, &pseudonyms).await;
    assert_eq!(site.files(), fresh.files());
}

#[tokio::test]
async fn a_reply_moves_between_its_month_and_its_thread_when_the_root_comes_or_goes() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let month = 40 * 86_400;
    fixture.reply("T1", "C1", &ts(month), &ts(0), "a reply").await;
    for (step, is_in_thread) in [("without the root", false), ("with it", true), ("after its erasure", false)]
    {
        match step {
            "with it" => fixture.post("T1", "C1", &ts(0), "a root").await,
            "after its erasure" => fixture.erase("C1", &ts(0)).await,
            _ => {}
        }
        site.publish(&fixture, GENERAL).await;
        assert_eq!(site.path().join("c/general/2026-12.html").exists(), !is_in_thread, "{step}");
        let thread = format!("c/general/2026-11/{}.html", ts(0).replace('.', ""));
        assert_eq!(site.path().join(thread).exists(), is_in_thread, "{step}");
        let fresh = PublishedSite::new();
        fresh.publish(&fixture, GENERAL).await;
        assert_eq!(site.files(), fresh.files(), "{step}");
    }
}

#[tokio::test]
async fn a_thread_is_rendered_again_only_if_what_it_shows_has_changed() {
    const THREADS: u64 = 40;
    let (fixture, site) = (archive().await, PublishedSite::new());
    let root = |thread: u64| ts(i64::try_from(thread).unwrap() * 10);
    for thread in 0..THREADS {
        fixture.post("T1", "C1", &root(thread), "a root").await;
        let at = ts(i64::try_from(thread).unwrap() * 10 + 1);
        fixture.reply("T1", "C1", &at, &root(thread), "a reply to <@U2>").await;
    }
    let all = site.outcome(&fixture).await.counts.rendered;
    fixture.reply("T1", "C1", &ts(5_000), &root(7), "a late reply").await;
    fixture.edit("T1", "C1", &root(8), &ts(5_001), "another root").await;
    let changed = site.outcome(&fixture).await.counts;
    assert_eq!(changed.rendered, all - THREADS + 2);
    let threads = changed.written.iter().filter(|path| path.starts_with("c/general/2026-11/")).count();
    assert_eq!(threads, 2);
    fixture.profile("T1", "U2", "robert", &ts(5_002)).await;
    assert_eq!(site.outcome(&fixture).await.counts.rendered, all);
    let fresh = PublishedSite::new();
    fresh.outcome(&fixture).await;
    assert_eq!(site.files(), fresh.files());
}

#[tokio::test]
async fn each_thread_has_its_own_replies_however_many_they_are() {
    // The replies of several threads are read at once, and a thread has a page for each thousand.
    const REPLIES: [i64; 5] = [120, 200, 1_003, 1, 40];
    let (fixture, site) = (archive().await, PublishedSite::new());
    let root = |thread: usize| ts(i64::try_from(thread).unwrap());
    fixture.post_all("T1", "C1", &(0..REPLIES.len()).map(root).collect::<Vec<_>>()).await;
    for (thread, count) in REPLIES.iter().enumerate() {
        let first = 10_000 * i64::try_from(thread + 1).unwrap();
        let reply = |number| [ts(first + number), root(thread), format!("reply {number} in {thread}.")];
        fixture.reply_all("T1", "C1", (0..*count).map(reply)).await;
    }
    site.publish(&fixture, GENERAL).await;
    for (thread, count) in REPLIES.iter().enumerate() {
        let root_ts = Ts::parse(&root(thread)).unwrap();
        let page = |part| site.file(&format!("c/general/{}", thread_page(&root_ts, part)));
        let mut pages = vec![page(1)];
        pages.extend((*count > 1_000).then(|| page(2)));
        for (page, content) in pages.iter().enumerate() {
            let shown: Vec<&str> = content
                .split("reply ")
                .filter_map(|rest| {
                    rest.split_once(" in ").filter(|(number, _)| number.parse::<i64>().is_ok())
                })
                .map(|(_, rest)| rest.split_once('.').unwrap().0)
                .collect();
            assert!(!shown.is_empty() && shown.iter().all(|of| *of == thread.to_string()), "{thread} {page}");
        }
        let last = format!("reply {} in {thread}.", count - 1);
        assert!(pages.last().unwrap().contains(&last) && !pages[..pages.len() - 1].concat().contains(&last));
    }
    assert_links_resolve(&site);
}

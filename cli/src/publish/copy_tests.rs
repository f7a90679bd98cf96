//! Copies of files and pictures on a site.

use super::*;

#[tokio::test]
async fn files_are_on_the_site_while_a_page_shows_them() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let file = |id: &str, name: &str, mimetype: &str, user: &str| json!({ "id": id, "name": name, "mimetype": mimetype, "user": user });
    let hostile = file("F1", "../../../../etc/cron.d/x.html", "image/png", "U1");
    share(&fixture, "U1", "C1", &ts(0), &hostile, PICTURE).await;
    fixture.reply("T1", "C1", &ts(5), &ts(0), "a reply").await;
    share(&fixture, "U2", "C1", &ts(10), &file("F2", "notes.txt", "text/plain", "U2"), b"notes of bob").await;
    share(&fixture, "U1", "C2", &ts(20), &file("F3", "plans.txt", "text/plain", "U1"), b"secret plans").await;
    share(&fixture, "U1", "C1", &ts(30), &file("F4", "page.html", "text/html", "U1"), b"<script>").await;
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.copies(), [""; 0]);
    assert!(site.file("c/general/2026-11.html").contains("notes.txt"));
    let all = [GENERAL, &["--files", "all"]].concat();
    let planned = site.publish(&fixture, &[&all[..], &["--dry-run"]].concat()).await;
    assert!(planned["would_write"].as_array().unwrap().contains(&json!("files/F1.png")), "{planned}");
    assert_eq!(site.copies(), [""; 0]);
    let summary = site.publish(&fixture, &all).await;
    assert_eq!(site.copies(), ["files/F1.png", "files/F2.txt", "files/F4.bin"]);
    assert_eq!((&summary["written"], &summary["files"]), (&planned["written"], &json!(site.files().len())));
    assert_eq!(fs::read(site.path().join("files/F1.png")).unwrap(), PICTURE);
    let page = site.file("c/general/2026-11.html");
    assert!(
        page.contains("<img src=\"../../files/F1.png\"") && page.contains("\"../../files/F2.txt\""),
        "{page}"
    );
    let thread = site.file(&format!("c/general/2026-11/{}.html", ts(0).replace('.', "")));
    assert!(thread.contains("<img src=\"../../../files/F1.png\""), "{thread}");
    assert_links_resolve(&site);
    let check = [&all[..], &["--check"]].concat();
    site.run(&fixture, &check).await.unwrap();
    assert_eq!(site.publish(&fixture, &all).await["written"], 0);
    fixture.advance();
    wish_of(&fixture, &["opt-out", "bob"]).await;
    site.publish(&fixture, &all).await;
    assert_eq!(site.copies(), ["files/F1.png", "files/F4.bin"]);
    fixture.delete("T1", "C1", &ts(0), &ts(40)).await;
    let summary = site.publish(&fixture, &all).await;
    assert_eq!((site.copies(), &summary["deleted"]), (vec!["files/F4.bin".to_owned()], &json!(1)));
    let fresh = PublishedSite::new();
    fresh.publish(&fixture, &all).await;
    assert_eq!(site.files(), fresh.files());
    fs::write(site.path().join("files/F4.bin"), "changed").unwrap();
    assert_eq!(problems(&site, &fixture, &check).await, ["changed_file"]);
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.copies(), [""; 0]);
}

#[tokio::test]
async fn pictures_are_on_the_site_only_if_they_are_wanted_and_not_of_a_hidden_person() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let user = UserId::parse("U1").unwrap();
    let pictured = async |url: &str, clock: &str| {
        let profile = json!({ "display_name": "ana", "image_192": url });
        let event = json!({ "type": "user_change", "event_ts": clock, "user": { "id": "U1", "name": "ana", "profile": profile } });
        fixture.write("T1", &event).await;
        store_picture(&fixture, ImageOwner::User(user.clone()), url).await
    };
    let first = pictured("https://a.test/1.png", &ts(0)).await;
    let parrot = "https://a.test/parrot.png";
    let event = json!({ "type": "emoji_changed", "subtype": "add", "name": "parrot", "value": parrot, "event_ts": ts(0) });
    fixture.write("T1", &event).await;
    let parrot = store_picture(&fixture, ImageOwner::Emoji("parrot".to_owned()), parrot).await;
    write_as(&fixture, "U1", "C1", &ts(10), "words :parrot:").await;
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.copies(), [""; 0]);
    site.publish(&fixture, &[GENERAL, &["--files", "all"]].concat()).await;
    assert_eq!(site.copies(), [parrot]);
    let avatars = [GENERAL, &["--avatars"]].concat();
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [first.as_str()]);
    assert!(site.file("c/general/2026-11.html").contains(&format!("class=\"avatar\" src=\"../../{first}\"")));
    assert_links_resolve(&site);
    let second = pictured("https://a.test/2.png", &ts(20)).await;
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [second.as_str()]);
    fixture.advance();
    wish_of(&fixture, &["opt-out", "U1", "--keep-text"]).await;
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [""; 0]);
    fixture.advance();
    wish_of(&fixture, &["opt-in", "U1"]).await;
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [second]);
    let error = site.run(&fixture, &[&avatars[..], &["--names", "pseudonym"]].concat()).await.unwrap_err();
    assert!(error.is::<UsageError>() && error.to_string().contains("--avatars"), "{error}");
}

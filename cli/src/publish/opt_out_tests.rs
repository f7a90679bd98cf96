//! What leaves a site: people who opt out, and what left the archive.

use super::*;

#[tokio::test]
async fn nothing_of_a_hidden_person_is_on_the_site_until_they_return() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    write_as(&fixture, "U2", "C1", &ts(0), "words of bob").await;
    write_as(&fixture, "U1", "C1", &ts(60), "ask <@U2|bob>").await;
    fixture.reply("T1", "C1", &ts(70), &ts(0), "a reply").await;
    fixture.react("T1", "C1", &ts(60), "U2", "tada", &ts(80)).await;
    let quote = json!([{ "is_share": true, "channel_id": "C1", "author_id": "U2", "author_name": "bob", "text": "quote of bob" }]);
    fixture.change("T1", "C1", &ts(90), &ts(90), json!({ "text": "look", "attachments": quote })).await;
    site.publish(&fixture, GENERAL).await;
    let before = site.files();
    assert!(!site.with("bob").is_empty());
    fixture.advance();
    wish_of(&fixture, &["opt-out", "bob"]).await;
    let summary = site.publish(&fixture, GENERAL).await;
    assert_eq!(summary["people_hidden"], 1);
    assert_eq!(site.with("bob"), [""; 0]);
    let thread = site.file(&format!("c/general/2026-11/{}.html", ts(0).replace('.', "")));
    assert!(
        thread.contains("<title>Thread of 2026-11-20") && thread.contains("This message is not shown."),
        "{thread}"
    );
    assert!(site.file("c/general/2026-11.html").contains("@a member"));
    fixture.advance();
    wish_of(&fixture, &["opt-out", "U2", "--keep-text"]).await;
    site.publish(&fixture, GENERAL).await;
    assert!(!site.with("words of bob").is_empty() && site.with(">bob<").is_empty());
    fixture.advance();
    wish_of(&fixture, &["opt-in", "U2"]).await;
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn what_leaves_the_archive_or_the_list_leaves_the_site() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let both = ["--channel", "C1", "--channel", "C2"];
    fixture.post("T1", "C1", &ts(0), "first words").await;
    fixture.post("T1", "C1", &ts(10), "erased words").await;
    fixture.reply("T1", "C1", &ts(20), &ts(0), "deleted words").await;
    fixture.post("T1", "C2", &ts(30), "other words").await;
    site.publish(&fixture, &both).await;
    for words in ["first words", "erased words", "deleted words", "other words"] {
        assert!(!site.with(words).is_empty(), "{words}");
    }
    fixture.edit("T1", "C1", &ts(0), &ts(40), "second words").await;
    fixture.erase("C1", &ts(10)).await;
    fixture.delete("T1", "C1", &ts(20), &ts(50)).await;
    fixture.channel_event("T1", "channel_convert_to_private", "C2", &ts(60)).await;
    fixture.channel_notice("T1", "C2", &ts(61), "channel_convert_to_private", ("x", "y")).await;
    let summary = site.publish(&fixture, &both).await;
    assert_eq!(summary["refused"], json!([{ "channel": "C2", "reason": "private" }]));
    for words in ["first words", "erased words", "deleted words", "other words", "secret-plans"] {
        assert_eq!(site.with(words), [""; 0], "{words}");
    }
    assert!(!site.with("second words").is_empty());
    let thread = site.path().join(format!("c/general/2026-11/{}.html", ts(0).replace('.', "")));
    assert!(!thread.exists(), "a thread without replies has no page");
    let error = site.run(&fixture, &["--channel", "no-such-channel"]).await.unwrap_err();
    assert!(error.to_string().contains("no-such-channel"), "{error}");
    assert!(!site.with("second words").is_empty());
}

#[tokio::test]
async fn who_is_out_of_the_archive_is_out_of_the_site_without_another_command() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    write_as(&fixture, "U2", "C1", &ts(0), "words of bob").await;
    write_as(&fixture, "U1", "C1", &ts(60), "ask <@U2|bob>").await;
    write_as(&fixture, "U1", "C2", &ts(70), "words in secret-plans").await;
    let both = ["--channel", "C1", "--channel", "C2"];
    site.publish(&fixture, &both).await;
    let before = site.files();
    let team = TeamId::parse("T1").unwrap();
    let out = async |scope: OptOutScope, second: i64, is_out: bool| {
        let at = Ts::parse(&ts(second)).unwrap();
        let fact = OptOutFact { team: team.clone(), scope, at, is_out, by: None };
        fixture.archive().write(&fact.update()).await.unwrap();
    };
    let user = OptOutScope::User(UserId::parse("U2").unwrap());
    let channel = OptOutScope::Channel(ChannelId::parse("C2").unwrap());
    out(user.clone(), 100, true).await;
    out(channel.clone(), 100, true).await;
    let summary = site.publish(&fixture, &both).await;
    assert_eq!(summary["people_hidden"], 1);
    assert_eq!(summary["refused"], json!([{ "channel": "C2", "reason": "opted_out" }]));
    for absent in ["bob", "secret-plans"] {
        assert_eq!(site.with(absent), [""; 0], "{absent}");
    }
    out(user, 200, false).await;
    out(channel, 200, false).await;
    site.publish(&fixture, &both).await;
    assert_eq!(site.files(), before);
}

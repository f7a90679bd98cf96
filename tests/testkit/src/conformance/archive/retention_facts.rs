//! What has expired, what a hold keeps, and what is withheld.

use ports::archive::erasure::{ExpiryFact, HoldFact, HoldRelease, HoldScope, OptOutFact, OptOutScope};
use ports::archive::{Item, ItemKey, Update};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::case::{ArchiveCase, attributes, greater, update};

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn ts(text: &str) -> Ts {
    Ts::parse(text).unwrap()
}

fn expire(channel: Option<&str>, until: &str) -> Update {
    let channel = channel.map(|channel| ChannelId::parse(channel).unwrap());
    ExpiryFact::expire(&team(), channel.as_ref(), &ts(until))
}

fn hold(scope: HoldScope) -> HoldFact {
    let (set_at, by, release) = (ts("1.000000"), None, None);
    let (id, reason) = ("3f9a12c4".into(), "case 12".into());
    HoldFact { team: team(), id, scope, reason, by, set_at, release, is_swept: false }
}

fn opt_out(scope: OptOutScope, at: &str, is_out: bool) -> Update {
    OptOutFact { team: team(), scope, at: ts(at), is_out, by: None }.update()
}

fn message_key(ts: &str) -> ItemKey {
    ItemKey::new("message#T1#C1", ts)
}

fn message(ts: &str, user: &str) -> Update {
    let set_if_absent = attributes(
        json!({ "team_id": "T1", "channel_id": "C1", "thread_ts": "5.000000", "parent": "T1#5.000000" }),
    );
    let set = json!({ "user": user, "text": "secret", "raw": "{}" });
    Update { set_if_absent, ..update(message_key(ts), greater("1"), set) }
}

fn reaction(ts: &str) -> Update {
    Update { set: attributes(json!({ "reaction#eyes#U9": "1/added" })), ..Update::new(message_key(ts)) }
}

fn expired() -> Value {
    json!({ "erased": true, "expired": true })
}

pub(super) async fn what_has_expired_is_not_written(case: ArchiveCase) {
    case.write_fact_updates(&[expire(None, "200.000000"), expire(Some("C2"), "50.000000")]).await;
    for refused in [message("199.999999", "U1"), reaction("150.000000"), message("150.000000", "U1")] {
        let key = refused.key.clone();
        assert_eq!(case.refuse(refused).await, Item::expired(key.clone()));
        case.expect(&key, expired()).await;
    }
    case.apply(message("200.000000", "U1")).await;
    // The fact of a channel replaces that of every channel.
    let elsewhere = |ts| Update { key: ItemKey::new("message#T1#C2", ts), ..message(ts, "U1") };
    case.apply(elsewhere("50.000000")).await;
    case.refuse(elsewhere("49.000000")).await;
}

pub(super) async fn an_item_expires_only_if_a_stored_fact_says_so(case: ArchiveCase) {
    let archive = &case.fixture.archive;
    case.apply(message("150.000000", "U1")).await;
    case.apply(message("250.000000", "U1")).await;
    case.apply(reaction("160.000000")).await;
    assert!(!archive.expire(&message_key("150.000000")).await.unwrap());
    case.write_fact_updates(&[expire(None, "200.000000")]).await;
    // What is stored stays until it is removed.
    case.refuse(message("150.000000", "U1")).await;
    assert_eq!(case.get(&message_key("150.000000")).await.unwrap().text("text"), Some("secret"));
    for (ts, expires) in
        [("150.000000", true), ("160.000000", true), ("250.000000", false), ("170.000000", false)]
    {
        assert_eq!(archive.expire(&message_key(ts)).await.unwrap(), expires, "{ts}");
        assert!(!archive.expire(&message_key(ts)).await.unwrap(), "{ts}");
    }
    case.expect(&message_key("150.000000"), expired()).await;
    assert_eq!(case.get(&message_key("170.000000")).await, None);
    assert!(!case.get(&message_key("250.000000")).await.unwrap().is_erased());
    // An erasure covers what has expired, too.
    assert!(!archive.erase(&message_key("150.000000")).await.unwrap());
    case.expect(&message_key("150.000000"), json!({ "erased": true })).await;
}

pub(super) async fn a_hold_keeps_an_item_until_it_is_released(case: ArchiveCase) {
    let archive = &case.fixture.archive;
    let hold = hold(HoldScope { user: Some(UserId::parse("U1").unwrap()), ..HoldScope::default() });
    case.apply(message("150.000000", "U1")).await;
    case.apply(message("160.000000", "U2")).await;
    case.write_fact_updates(&[hold.update(), expire(None, "200.000000")]).await;
    assert!(!archive.expire(&message_key("150.000000")).await.unwrap());
    assert!(archive.expire(&message_key("160.000000")).await.unwrap());
    case.apply(reaction("150.000000")).await;
    case.refuse(reaction("160.000000")).await;
    let release = HoldRelease { at: ts("9.000000"), reason: "closed".into(), by: None };
    case.write_fact_updates(&[hold.release(&release)]).await;
    assert!(archive.expire(&message_key("150.000000")).await.unwrap());
    case.expect(&message_key("150.000000"), expired()).await;
}

pub(super) async fn only_the_place_of_a_withheld_message_is_stored(case: ArchiveCase) {
    let person = || OptOutScope::User(UserId::parse("U1").unwrap());
    case.apply(message("90.000000", "U1")).await;
    case.apply(reaction("120.000000")).await;
    case.write_fact_updates(&[opt_out(person(), "100.000000", true), opt_out(person(), "200.000000", false)])
        .await;
    let place = json!({
        "erased": true, "withheld": true, "team_id": "T1", "channel_id": "C1", "thread_ts": "5.000000",
        "parent": "T1#5.000000"
    });
    for ts in ["100.000000", "120.000000", "199.000000"] {
        for _ in 0..2 {
            assert!(case.refuse(message(ts, "U1")).await.has_flag("withheld"));
            case.expect(&message_key(ts), place.clone()).await;
        }
        case.refuse(reaction(ts)).await;
        case.expect(&message_key(ts), place.clone()).await;
    }
    let revision = ItemKey::new("revision#T1#C1#120.000000", "000000000500.000000#abc");
    case.refuse(update(revision.clone(), greater("1"), json!({ "user": "U1", "text": "secret" }))).await;
    case.expect(&revision, json!({ "erased": true, "withheld": true })).await;
    assert_eq!(case.get(&message_key("90.000000")).await.unwrap().text("text"), Some("secret"));
    for (ts, user) in [("120.000001", "U2"), ("200.000000", "U1"), ("99.000000", "U1")] {
        case.apply(message(ts, user)).await;
    }
    // What is left of it expires like any other message.
    case.write_fact_updates(&[expire(None, "150.000000")]).await;
    case.fixture.archive.expire(&message_key("120.000000")).await.unwrap();
    case.expect(&message_key("120.000000"), expired()).await;
}

pub(super) async fn nothing_of_a_channel_that_is_out_is_stored(case: ArchiveCase) {
    let channel = OptOutScope::Channel(ChannelId::parse("C1").unwrap());
    case.write_fact_updates(&[opt_out(channel, "100.000000", true)]).await;
    for refused in [message("100.000000", "U1"), reaction("120.000000")] {
        let key = refused.key.clone();
        assert!(case.refuse(refused).await.is_erased());
        assert_eq!(case.get(&key).await, None);
    }
    case.apply(message("99.000000", "U1")).await;
}

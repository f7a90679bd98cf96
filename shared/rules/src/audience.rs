//! Whether an event is stored: public channels only, except that a channel once public is kept after its conversion.
//!
//! [`decide`] is called twice for each event of a batch, in the same order and with the same facts: first as if all that the
//! events claim existed, to select what the existence check is asked about, then with what it answered. Each event that is
//! stored and shows its channel to be public changes the facts for those behind it, so the first call lets in at least what
//! the second one does.

use serde::Deserialize;

use super::SlackEvent;
use super::public_mark::{MarkState, PublicMark};
use ports::queue::route::Audience;
use slack::catalogue::{ChannelChange, Visibility};
use slack::envelope;

/// What a channel object says of who may read the channel.
#[derive(Default, Deserialize)]
struct ChannelFlags {
    #[serde(default, deserialize_with = "envelope::is_true")]
    is_private: bool,
}

/// What is known of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelFacts {
    /// Its public mark.
    pub mark: PublicMark,
    /// What its rows say.
    pub rows: ChannelRows,
    /// Whether an event said lately that it is private.
    pub seen_as_private: bool,
    /// What Slack says, if it was asked.
    pub sight: Option<Sight>,
}

/// What the rows of a channel say of who may read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChannelRows {
    /// There are no rows of it.
    #[default]
    Missing,
    /// The newest one says that it is public.
    Public,
    /// The newest one does not say so.
    NotPublic,
}

/// Who may read a channel, as Slack shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// Everyone in the workspace.
    Public,
    /// Some people.
    Private,
    /// Slack does not know it, or cannot say: the reason that a person reads.
    Unknown(String),
    /// Slack has not said yet.
    Later,
}

/// Which facts a decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeededFacts {
    /// None: the event says it all.
    Nothing,
    /// The public mark.
    Mark,
    /// The public mark, and the rows of a channel without one.
    MarkAndRows,
}

/// Whether an event is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is.
    Store {
        /// Whether it sets the public mark of its channel.
        marks: bool,
    },
    /// It is not.
    Drop(DropReason),
    /// Neither the event nor the archive says who may read its channel, and Slack has not said it yet.
    Wait,
    /// Slack cannot say it, for this reason, and waiting does not help.
    Refuse(String),
}

/// Why an event is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It is of a direct message.
    DirectMessage,
    /// Its channel is private and never was public.
    PrivateChannel,
    /// Nothing said in time who may read its channel.
    UnknownChannel,
    /// No message that is stored shared the file.
    UnknownFile,
}

impl DropReason {
    /// The reason as a metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::DirectMessage => "direct_message",
            Self::PrivateChannel => "private_channel",
            Self::UnknownChannel => "channel_unknown",
            Self::UnknownFile => "unknown_file",
        }
    }
}

/// Whether the event itself shows that its channel is public, or was until now.
pub fn shows_public(event: &SlackEvent<'_>) -> bool {
    match event.visibility() {
        Visibility::PublicByType => true,
        // An object that cannot be read does not say it.
        Visibility::ChannelObject => {
            let object = event.header.channel_object();
            let flags = object.map(envelope::read::<ChannelFlags>).transpose();
            flags.is_ok_and(|flags| !flags.unwrap_or_default().is_private)
        }
        Visibility::ChannelType => match Audience::of(&event.header) {
            Audience::Public => true,
            // The conversion arrives as a private event, and proves that the channel was public.
            Audience::Private => {
                let subtype = event.header.subtype.as_deref();
                subtype.and_then(ChannelChange::told_by) == Some(ChannelChange::MadePrivate)
            }
            Audience::Direct | Audience::Untyped => false,
        },
        Visibility::ChannelLetter => event.header.channel_type.as_deref() != Some("G"),
        Visibility::Archive | Visibility::PublicMark | Visibility::NoChannel => false,
    }
}

/// Which facts [`decide`] needs of the event's channel.
pub fn needed_facts(event: &SlackEvent<'_>) -> NeededFacts {
    let audience = Audience::of(&event.header);
    if audience == Audience::Direct || shows_public(event) {
        return NeededFacts::Nothing;
    }
    match event.visibility() {
        Visibility::PublicByType | Visibility::NoChannel => NeededFacts::Nothing,
        Visibility::ChannelType if audience == Audience::Untyped => NeededFacts::MarkAndRows,
        Visibility::ChannelObject | Visibility::Archive => NeededFacts::MarkAndRows,
        Visibility::PublicMark if event.header.channel().is_none() => NeededFacts::Nothing,
        Visibility::ChannelType | Visibility::ChannelLetter | Visibility::PublicMark => NeededFacts::Mark,
    }
}

/// Whether an event is stored, given what is known of its channel.
pub fn decide(event: &SlackEvent<'_>, facts: &ChannelFacts) -> Decision {
    let audience = Audience::of(&event.header);
    if audience == Audience::Direct {
        return Decision::Drop(DropReason::DirectMessage);
    }
    let typed = event.visibility() == Visibility::ChannelType;
    if shows_public(event) {
        return Decision::Store { marks: typed };
    }
    let stored = match (needed_facts(event), facts.mark.state()) {
        (NeededFacts::Nothing, _) | (_, MarkState::Public) => true,
        (NeededFacts::Mark, _) | (_, MarkState::Forgotten) => false,
        // A message says nothing of its channel's rows: the newest of them has to say that it is public.
        (NeededFacts::MarkAndRows, MarkState::Unmarked) if typed => facts.rows == ChannelRows::Public,
        (NeededFacts::MarkAndRows, MarkState::Unmarked) => facts.rows != ChannelRows::Missing,
    };
    let untyped = typed && audience == Audience::Untyped;
    if stored {
        Decision::Store { marks: untyped }
    } else if untyped && !facts.seen_as_private {
        decide_by_sight(facts.sight.as_ref())
    } else {
        Decision::Drop(DropReason::PrivateChannel)
    }
}

fn decide_by_sight(sight: Option<&Sight>) -> Decision {
    match sight {
        Some(Sight::Public) => Decision::Store { marks: true },
        Some(Sight::Private) => Decision::Drop(DropReason::PrivateChannel),
        Some(Sight::Unknown(reason)) => Decision::Refuse(reason.clone()),
        Some(Sight::Later) | None => Decision::Wait,
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{Item, ItemKey};
    use serde_json::{Value, json};
    use slack::envelope::Envelope;
    use slack::ids::{ChannelId, TeamId, Ts};

    use super::*;

    const DROP: Decision = Decision::Drop(DropReason::PrivateChannel);

    fn decided(event: &Value, facts: &ChannelFacts) -> Decision {
        let body = json!({ "team_id": "T1", "event": event }).to_string();
        decide(&SlackEvent::read(&Envelope::peek(body.as_bytes()).unwrap()).unwrap(), facts)
    }

    fn message(channel_type: Option<&str>) -> Value {
        json!({ "type": "message", "channel": "C1", "channel_type": channel_type, "ts": "5.000000" })
    }

    fn marked() -> ChannelFacts {
        ChannelFacts { mark: PublicMark::public(), ..ChannelFacts::default() }
    }

    fn with_rows(rows: ChannelRows) -> ChannelFacts {
        ChannelFacts { rows, ..ChannelFacts::default() }
    }

    #[test]
    fn a_private_message_is_stored_if_its_channel_was_public_once() {
        let nothing = ChannelFacts::default();
        assert_eq!(decided(&message(Some("channel")), &nothing), Decision::Store { marks: true });
        assert_eq!(decided(&message(Some("group")), &nothing), DROP);
        assert_eq!(decided(&message(Some("group")), &with_rows(ChannelRows::Public)), DROP);
        assert_eq!(decided(&message(Some("group")), &marked()), Decision::Store { marks: false });
        for direct in ["im", "mpim", "app_home"] {
            assert_eq!(decided(&message(Some(direct)), &marked()), Decision::Drop(DropReason::DirectMessage));
        }
        let mut conversion = message(Some("group"));
        conversion["subtype"] = "channel_convert_to_private".into();
        assert_eq!(decided(&conversion, &nothing), Decision::Store { marks: true });
    }

    #[test]
    fn a_message_without_a_type_is_judged_by_the_archive_and_then_by_slack() {
        let untyped = message(None);
        let seen = |sight| ChannelFacts { sight, ..ChannelFacts::default() };
        assert_eq!(decided(&untyped, &marked()), Decision::Store { marks: true });
        assert_eq!(decided(&untyped, &with_rows(ChannelRows::Public)), Decision::Store { marks: true });
        assert_eq!(decided(&untyped, &with_rows(ChannelRows::NotPublic)), Decision::Wait);
        for (sight, decision) in [
            (None, Decision::Wait),
            (Some(Sight::Later), Decision::Wait),
            (Some(Sight::Public), Decision::Store { marks: true }),
            (Some(Sight::Private), DROP),
            (Some(Sight::Unknown("why".into())), Decision::Refuse("why".into())),
        ] {
            assert_eq!(decided(&untyped, &seen(sight)), decision);
        }
        let private = ChannelFacts { seen_as_private: true, ..seen(Some(Sight::Public)) };
        assert_eq!(decided(&untyped, &private), DROP);
    }

    #[test]
    fn what_happens_to_a_channel_is_stored_if_the_channel_is_known_or_says_that_it_is_public() {
        let event = |kind: &str| json!({ "type": kind, "channel": "C1" });
        let created = |private: bool| json!({ "type": "channel_created", "channel": { "id": "C1", "is_private": private } });
        let renamed = |private: bool| json!({ "type": "channel_rename", "channel": { "id": "C1", "is_private": private } });
        let joined = |letter: &str| json!({ "type": "member_joined_channel", "channel": "C1", "channel_type": letter });
        let changed = json!({ "type": "channel_history_changed", "latest": "5.000000" });
        let (nothing, rows) = (ChannelFacts::default(), with_rows(ChannelRows::NotPublic));
        let store = Decision::Store { marks: false };
        let unnamed = json!({ "type": "channel_rename", "channel": { "id": "C1" } });
        let public =
            [event("channel_archive"), created(false), renamed(false), unnamed, joined("C"), changed];
        for public in public.into_iter().chain([event("user_change")]) {
            assert_eq!(decided(&public, &nothing), store, "{public}");
        }
        for unstated in [event("group_archive"), event("channel_shared"), created(true), renamed(true)] {
            assert_eq!(decided(&unstated, &nothing), DROP, "{unstated}");
            assert_eq!(decided(&unstated, &rows), store, "{unstated}");
        }
        for by_mark in [joined("G"), event("channel_history_changed")] {
            assert_eq!(decided(&by_mark, &rows), DROP, "{by_mark}");
            assert_eq!(decided(&by_mark, &marked()), store, "{by_mark}");
        }
    }

    #[test]
    fn a_private_channel_is_created_as_one_however_odd_its_object_is() {
        let decided = |object: &str| {
            let body =
                format!(r#"{{"team_id":"T1","event":{{"type":"channel_created","channel":{object}}}}}"#);
            let envelope = Envelope::peek(body.as_bytes()).unwrap();
            decide(&SlackEvent::read(&envelope).unwrap(), &ChannelFacts::default())
        };
        for private in [
            r#"{"id":"C1","name":"plan-\ud83d","is_private":true}"#,
            r#"{"id":"C1","is_private":false,"is_private":true}"#,
            r#"{"id":"C1","is_private":true,"is_private":false}"#,
        ] {
            assert_eq!(decided(private), DROP, "{private}");
        }
        let public = r#"{"id":"C1","name":"plan-\ud83d","is_private":false}"#;
        assert_eq!(decided(public), Decision::Store { marks: false });
    }

    #[test]
    fn a_mark_that_was_taken_back_overrules_the_rows_until_a_later_public_event() {
        let ts = |text: &str| Ts::parse(text).unwrap();
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let taken_back = super::super::public_mark::taken_back(&team, &channel, &ts("20.000000"));
        let row =
            Item { key: ItemKey::public_mark(&team, &channel), attributes: taken_back.apply(None).unwrap() };
        let mut facts = ChannelFacts { mark: PublicMark::of(Some(&row)), ..with_rows(ChannelRows::Public) };
        assert_eq!(decided(&message(None), &facts), Decision::Wait);
        assert_eq!(decided(&json!({ "type": "channel_shared", "channel": "C1" }), &facts), DROP);
        facts.mark.open(&ts("20.000000"));
        assert_eq!(decided(&message(Some("group")), &facts), DROP);
        facts.mark.open(&ts("20.000001"));
        assert_eq!(decided(&message(Some("group")), &facts), Decision::Store { marks: false });
    }
}

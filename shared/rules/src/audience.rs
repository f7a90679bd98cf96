//! Decides whether an event is stored: only public channels are, and channels that were public before their
//! conversion.
//!
//! [`decide`] is called twice for each event of a batch, in the same order and with the same facts: first as
//! if everything that the events claim existed, to select the input of the existence check, then with its
//! results. An event that is stored and shows its channel to be public changes the facts for the events after
//! it, so the first call accepts at least the events that the second one accepts.

use serde::Deserialize;

use super::SlackEvent;
use super::public_mark::{MarkState, PublicMark};
use ports::queue::route::Audience;
use slack::catalogue::{ChannelChange, Visibility};
use slack::envelope;

/// The fields of a channel object that state its visibility.
#[derive(Default, Deserialize)]
struct ChannelFlags {
    #[serde(default, deserialize_with = "envelope::is_true")]
    is_private: bool,
}

/// The known facts about a channel's visibility.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelFacts {
    pub mark: PublicMark,
    /// The visibility in its rows.
    pub rows: ChannelRows,
    /// Whether a recent event showed it to be private.
    pub seen_as_private: bool,
    /// The visibility that Slack reports, if it was asked.
    pub visibility: Option<ChannelVisibility>,
}

/// The visibility of a channel in its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChannelRows {
    /// The channel has no rows.
    #[default]
    Missing,
    /// The newest row has the visibility public.
    Public,
    /// The newest row has another visibility, or none.
    NotPublic,
}

/// The visibility of a channel as Slack reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelVisibility {
    /// Everyone in the workspace can read it.
    Public,
    /// Only its members can read it.
    Private,
    /// Slack does not know the channel or cannot report its visibility, for this reason, which operators
    /// read.
    Unknown(String),
    /// Slack has not answered yet.
    Later,
}

/// Which facts a decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeededFacts {
    /// None: the event itself is sufficient.
    Nothing,
    /// The public mark.
    Mark,
    /// The public mark, and the rows of a channel without one.
    MarkAndRows,
}

/// Whether an event is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The event is stored.
    Store {
        /// Whether it sets the public mark of its channel.
        marks: bool,
    },
    /// The event is not stored.
    Drop(DropReason),
    /// Neither the event nor the archive states the visibility of its channel, and Slack has not answered
    /// yet.
    Wait,
    /// Slack cannot report the visibility, for this reason, and waiting does not help.
    Refuse(String),
}

/// Why an event is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It belongs to a direct message.
    DirectMessage,
    /// Its channel is private and never was public.
    PrivateChannel,
    /// The visibility of its channel did not become known in time.
    UnknownChannel,
    /// No stored message shared the file.
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
        // An object that cannot be read does not show it.
        Visibility::ChannelObject => {
            let object = event.header.channel_object();
            let flags = object.map(envelope::read_object::<ChannelFlags>).transpose();
            flags.is_ok_and(|flags| !flags.unwrap_or_default().is_private)
        }
        Visibility::ChannelType => match Audience::from_event(&event.header) {
            Audience::Public => true,
            // The conversion to private arrives as a private event, and proves that the channel was public.
            Audience::Private => {
                let subtype = event.header.subtype.as_deref();
                subtype.and_then(ChannelChange::from_subtype) == Some(ChannelChange::MadePrivate)
            }
            Audience::Direct | Audience::Untyped => false,
        },
        Visibility::ChannelLetter => event.header.channel_type.as_deref() != Some("G"),
        Visibility::Archive | Visibility::PublicMark | Visibility::NoChannel => false,
    }
}

/// Which facts about the event's channel [`decide`] needs.
pub fn needed_facts(event: &SlackEvent<'_>) -> NeededFacts {
    let audience = Audience::from_event(&event.header);
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

/// Decides whether an event is stored, given the known facts about its channel.
pub fn decide(event: &SlackEvent<'_>, facts: &ChannelFacts) -> Decision {
    let audience = Audience::from_event(&event.header);
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
        // A message does not create rows of its channel, so any row is not enough: the newest one must be
        // public.
        (NeededFacts::MarkAndRows, MarkState::Unmarked) if typed => facts.rows == ChannelRows::Public,
        (NeededFacts::MarkAndRows, MarkState::Unmarked) => facts.rows != ChannelRows::Missing,
    };
    let untyped = typed && audience == Audience::Untyped;
    if stored {
        Decision::Store { marks: untyped }
    } else if untyped && !facts.seen_as_private {
        decide_by_visibility(facts.visibility.as_ref())
    } else {
        Decision::Drop(DropReason::PrivateChannel)
    }
}

fn decide_by_visibility(visibility: Option<&ChannelVisibility>) -> Decision {
    match visibility {
        Some(ChannelVisibility::Public) => Decision::Store { marks: true },
        Some(ChannelVisibility::Private) => Decision::Drop(DropReason::PrivateChannel),
        Some(ChannelVisibility::Unknown(reason)) => Decision::Refuse(reason.clone()),
        Some(ChannelVisibility::Later) | None => Decision::Wait,
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{Item, ItemKey};
    use serde_json::{Value, json};
    use slack::ids::{ChannelId, TeamId, Ts};

    use super::*;
    use crate::fixture::with_event;

    const DROP: Decision = Decision::Drop(DropReason::PrivateChannel);

    fn decided(event: &Value, facts: &ChannelFacts) -> Decision {
        with_event(event, |event| decide(event, facts))
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
    fn the_archive_and_then_slack_decide_on_a_message_without_a_type() {
        let untyped = message(None);
        let seen = |sight| ChannelFacts { visibility: sight, ..ChannelFacts::default() };
        assert_eq!(decided(&untyped, &marked()), Decision::Store { marks: true });
        assert_eq!(decided(&untyped, &with_rows(ChannelRows::Public)), Decision::Store { marks: true });
        assert_eq!(decided(&untyped, &with_rows(ChannelRows::NotPublic)), Decision::Wait);
        for (sight, decision) in [
            (None, Decision::Wait),
            (Some(ChannelVisibility::Later), Decision::Wait),
            (Some(ChannelVisibility::Public), Decision::Store { marks: true }),
            (Some(ChannelVisibility::Private), DROP),
            (Some(ChannelVisibility::Unknown("why".into())), Decision::Refuse("why".into())),
        ] {
            assert_eq!(decided(&untyped, &seen(sight)), decision);
        }
        let private = ChannelFacts { seen_as_private: true, ..seen(Some(ChannelVisibility::Public)) };
        assert_eq!(decided(&untyped, &private), DROP);
    }

    #[test]
    fn a_channel_event_is_stored_if_it_shows_the_channel_to_be_public_or_the_channel_is_known() {
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
    fn a_private_channel_stays_private_even_if_its_object_is_odd() {
        let decided = |object: &str| {
            let event = format!(r#"{{"type":"channel_created","channel":{object}}}"#);
            with_event(event, |event| decide(event, &ChannelFacts::default()))
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
    fn a_withdrawn_mark_overrules_the_rows_until_a_later_public_event() {
        let ts = |text: &str| Ts::parse(text).unwrap();
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let taken_back = super::super::public_mark::withdrawal(&team, &channel, &ts("20.000000"));
        let row =
            Item { key: ItemKey::public_mark(&team, &channel), attributes: taken_back.apply(None).unwrap() };
        let mut facts =
            ChannelFacts { mark: PublicMark::from_row(Some(&row)), ..with_rows(ChannelRows::Public) };
        assert_eq!(decided(&message(None), &facts), Decision::Wait);
        assert_eq!(decided(&json!({ "type": "channel_shared", "channel": "C1" }), &facts), DROP);
        facts.mark.open(&ts("20.000000"));
        assert_eq!(decided(&message(Some("group")), &facts), DROP);
        facts.mark.open(&ts("20.000001"));
        assert_eq!(decided(&message(Some("group")), &facts), Decision::Store { marks: false });
    }
}

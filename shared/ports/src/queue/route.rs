//! Routes an envelope to its queues: a pure function over the topology.

use std::borrow::Cow;

use serde_json::json;

use super::job::{encode_event, encode_event_of_run, encode_job};
use super::run::RunId;
use super::{DedupId, GroupId, Outgoing, QueueName};
use slack::catalogue::{Destination, EventType};
use slack::envelope::Envelope;
use slack::event::EventHeader;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use slack::verification::without_token;

/// The group of events with malformed ids or unreadable envelopes. They are kept for inspection, and their
/// ids never become part of a key.
pub const INVALID_GROUP: &str = "invalid";

/// The destination of an envelope.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    /// These queues; ingest sends to all of them before it responds with 200.
    Queues(Vec<Outgoing>),
    /// None: a direct message is never stored.
    DirectMessage,
}

/// The audience of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Everyone in the workspace.
    Public,
    /// A private channel.
    Private,
    /// A direct message, a group direct message, or an app's home page.
    Direct,
    /// Not stated by the event.
    Untyped,
}

impl Audience {
    /// The audience that the event states. The first letter of the channel id decides only for `D…`.
    pub fn from_event(event: &EventHeader<'_>) -> Self {
        if event.channel().is_some_and(|channel| channel.starts_with('D')) {
            return Self::Direct;
        }
        match event.channel_type.as_deref() {
            Some("im" | "mpim" | "app_home") => Self::Direct,
            Some("channel") => Self::Public,
            Some("group") => Self::Private,
            Some(_) | None => Self::Untyped,
        }
    }
}

/// Routes an envelope; `body` is the request body that contains it.
pub fn route(envelope: &Envelope<'_>, body: &str) -> Route {
    route_event(None, envelope, &event_of(envelope), body)
}

/// Routes an envelope that ingest accepted. With a run, also returns the workspace and the time of the event.
/// The message contains the request body unchanged, except for the value of Slack's verification token.
pub fn route_in_run(
    run: Option<&RunId>,
    envelope: &Envelope<'_>,
    body: &str,
) -> (Route, Option<(TeamId, Ts)>) {
    let event = event_of(envelope);
    let accepted = run.and_then(|_| Some((envelope.workspace()?, event_time(envelope, &event)?)));
    (route_event(run, envelope, &event, body), accepted)
}

/// Routes a body that is a JSON object but not a readable envelope, for example because of a duplicate field.
/// It goes to the group of events with malformed ids, for inspection.
pub fn route_unreadable(body: &str) -> Outgoing {
    let group = GroupId::from_parts(&[INVALID_GROUP]);
    outgoing(QueueName::Events, group, None, (None, &Envelope::default()), &without_token(body), "")
}

/// When an event happened by Slack's clock: its own timestamp, otherwise the envelope's, which has whole
/// seconds.
pub fn event_time(envelope: &Envelope<'_>, event: &EventHeader<'_>) -> Option<Ts> {
    let envelope_time = || Ts::parse(&format!("{}.000000", envelope.event_time_s()?)).ok();
    event.clock().or_else(envelope_time)
}

fn event_of<'a>(envelope: &Envelope<'a>) -> EventHeader<'a> {
    envelope.event.map(EventHeader::read).unwrap_or_default()
}

fn route_event(run: Option<&RunId>, envelope: &Envelope<'_>, event: &EventHeader<'_>, body: &str) -> Route {
    if Audience::from_event(event) == Audience::Direct {
        return Route::DirectMessage;
    }
    let kind = match envelope.kind.as_deref() {
        Some("event_callback") => event.kind.name.as_deref().unwrap_or_default(),
        Some(other) => other,
        None => "",
    };
    let body = &*without_token(body);
    let Some(team) = envelope.workspace() else {
        let group = GroupId::from_parts(&[INVALID_GROUP]);
        return Route::Queues(vec![outgoing(QueueName::Events, group, run, (None, envelope), body, "")]);
    };
    let events_group = || events_group(&team, event);
    let send = |queue, group, kind| outgoing(queue, group, run, (Some(&team), envelope), body, kind);
    let to_events = || send(QueueName::Events, events_group(), "");
    let to_channels = || send(QueueName::Channels, GroupId::from_parts(&[team.as_str()]), kind);
    let is_own = || event.user().is_some_and(|user| envelope.is_own_user(&user));
    let destination = EventType::by_name(kind).map_or(Destination::Events, |known| known.destination);
    Route::Queues(match destination {
        Destination::ChannelsIfOwn if is_own() => vec![to_channels()],
        Destination::Events | Destination::ChannelsIfOwn => vec![to_events()],
        Destination::Channels => vec![to_channels()],
        Destination::EventsAndChannels => vec![to_events(), to_channels()],
    })
}

/// A message that forwards an event to the channel-indexer. The message-writer forwards channel facts that
/// only messages contain.
pub fn channels_message(team: &TeamId, envelope: &Envelope<'_>, body: &str) -> Outgoing {
    let group = GroupId::from_parts(&[team.as_str()]);
    outgoing(QueueName::Channels, group, None, (Some(team), envelope), body, "channel")
}

/// A message that reports to the channel-indexer that ingest refused requests signed by Slack, between the
/// first and the last of them.
pub fn refused_span_message(team: &TeamId, from: &Ts, to: &Ts) -> Outgoing {
    let dedup = [b"refused", team.as_str().as_bytes(), from.as_str().as_bytes(), to.as_str().as_bytes()];
    Outgoing {
        queue: QueueName::Channels,
        group: GroupId::from_parts(&[team.as_str()]),
        dedup: DedupId::from_parts(&dedup),
        body: encode_job("refused", &json!({ "team_id": team, "from": from, "to": to })),
    }
}

/// A message that reports to the channel-indexer that a run of ingest began to receive events at this time, by
/// Slack's clock.
pub fn run_message(team: &TeamId, run: &RunId, at: &Ts) -> Outgoing {
    Outgoing {
        queue: QueueName::Channels,
        group: GroupId::from_parts(&[team.as_str()]),
        dedup: DedupId::from_parts(&[b"run", team.as_str().as_bytes(), run.as_str().as_bytes()]),
        body: encode_job("run", &json!({ "team_id": team, "run": run, "at": at })),
    }
}

fn events_group(team: &TeamId, event: &EventHeader<'_>) -> GroupId {
    let valid_or_invalid = |valid: bool, id: Cow<'_, str>| {
        if valid { GroupId::from_parts(&[team.as_str(), &id]) } else { GroupId::from_parts(&[INVALID_GROUP]) }
    };
    if let Some(channel) = event.channel() {
        return valid_or_invalid(ChannelId::parse(&channel).is_ok(), channel);
    }
    match event.user() {
        Some(user) => valid_or_invalid(UserId::parse(&user).is_ok(), user),
        None => GroupId::from_parts(&[team.as_str()]),
    }
}

fn outgoing(
    queue: QueueName,
    group: GroupId,
    run: Option<&RunId>,
    (team, envelope): (Option<&TeamId>, &Envelope<'_>),
    body: &str,
    kind: &str,
) -> Outgoing {
    // The hash includes the body: with a leaked secret, an attacker could otherwise send another event under
    // an id that Slack is about to use.
    let team = team.map(TeamId::as_str).unwrap_or_default();
    let event_id = envelope.event_id.as_deref().unwrap_or_default();
    let dedup =
        DedupId::from_parts(&[team.as_bytes(), event_id.as_bytes(), kind.as_bytes(), body.as_bytes()]);
    let body = run.map_or_else(|| encode_event(body), |run| encode_event_of_run(run, body));
    Outgoing { queue, group, dedup, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(body: &str) -> Vec<(String, String)> {
        match route(&Envelope::peek(body.as_bytes()).unwrap(), body) {
            Route::Queues(sends) => {
                sends.into_iter().map(|send| (send.queue.to_string(), send.group.to_string())).collect()
            }
            Route::DirectMessage => vec![("direct".into(), String::new())],
        }
    }

    fn event(event: &str) -> Vec<(String, String)> {
        routed(&format!(r#"{{"type":"event_callback","team_id":"T1","event_id":"Ev1","event":{event}}}"#))
    }

    #[test]
    fn each_event_goes_to_its_message_group() {
        for (json, queue, group) in [
            (r#"{"type":"message","channel":"C1","channel_type":"channel"}"#, "events", "T1#C1"),
            (r#"{"type":"reaction_added","item":{"channel":"C1"},"user":"U1"}"#, "events", "T1#C1"),
            (r#"{"type":"user_change","user":{"id":"U1"}}"#, "events", "T1#U1"),
            (r#"{"type":"emoji_changed"}"#, "events", "T1"),
            (r#"{"type":"something_new"}"#, "events", "T1"),
            (r#"{"type":"channel_rename","channel":{"id":"C1"}}"#, "channels", "T1"),
            (r#"{"type":"message","channel":"c#1","channel_type":"channel"}"#, "events", "invalid"),
            (r#"{"type":"user_change","user":{"id":"u"}}"#, "events", "invalid"),
        ] {
            assert_eq!(event(json), [(queue.into(), group.into())], "{json}");
        }
    }

    #[test]
    fn a_changed_id_goes_to_both_workers() {
        let json = r#"{"type":"channel_id_changed","old_channel_id":"G1","new_channel_id":"C1"}"#;
        assert_eq!(event(json), [("events".into(), "T1#G1".into()), ("channels".into(), "T1".into())]);
    }

    #[test]
    fn direct_messages_are_not_routed() {
        for json in [
            r#"{"type":"message","channel":"D1"}"#,
            r#"{"type":"message","channel":"D1","channel_type":"channel"}"#,
            r#"{"type":"message","channel":"C1","channel_type":"im"}"#,
            r#"{"type":"message","channel":"G1","channel_type":"mpim"}"#,
            r#"{"type":"reaction_added","item":{"type":"message","channel":"D1"}}"#,
            r#"{"type":"pin_added","channel_id":"D1","item":{"type":"message","message":{"ts":"1.000000"}}}"#,
            r#"{"type":"reaction_added","channel":"C1","channel_type":"channel","item":{"type":"message","channel":"D1"}}"#,
        ] {
            assert_eq!(event(json), [("direct".into(), String::new())], "{json}");
        }
    }

    #[test]
    fn only_a_join_of_the_app_itself_goes_to_channels() {
        let joined = |user: &str, authorizations: &str| {
            let body = format!(
                r#"{{"type":"event_callback","team_id":"T1","authorizations":{authorizations},
                "event":{{"type":"member_joined_channel","user":{user},"channel":"C1","channel_type":"C"}}}}"#
            );
            routed(&body).remove(0).0
        };
        let app = r#"[{"team_id":"T1","user_id":"U0APP","is_bot":true}]"#;
        assert_eq!(joined("\"U0APP\"", app), "channels");
        assert_eq!(joined("\"U0OTHER\"", app), "events");
        // A person authorized the app too: a join of that person is not a join of the app.
        assert_eq!(joined("\"U0APP\"", r#"[{"team_id":"T1","user_id":"U0APP","is_bot":false}]"#), "events");
        for odd in ["null", "[]", "{}", "7", r#"[7,{"user_id":7,"is_bot":true}]"#] {
            assert_eq!(joined("\"U0APP\"", odd), "events", "{odd}");
        }
    }

    #[test]
    fn a_rate_limited_minute_goes_to_channels() {
        let body = r#"{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1}"#;
        assert_eq!(routed(body), [("channels".into(), "T1".into())]);
    }

    #[test]
    fn an_event_is_routed_to_the_workspace_of_the_installation() {
        let body = r#"{"type":"event_callback","team_id":"T0PARTNER","authorizations":[{"team_id":"T1"}],
            "event_time":5,"event":{"type":"message","channel":"C1","channel_type":"channel"}}"#;
        assert_eq!(routed(body), [("events".into(), "T1#C1".into())]);
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        let (_, accepted) = route_in_run(Some(&RunId::begin()), &envelope, body);
        assert_eq!(accepted.unwrap().0.as_str(), "T1");
    }

    #[test]
    fn an_invalid_team_id_is_never_part_of_a_group() {
        for body in [r#"{"type":"event_callback","team_id":"t#"}"#, "{}"] {
            assert_eq!(routed(body), [("events".into(), "invalid".into())]);
        }
    }

    #[test]
    fn a_dedup_id_identifies_one_event() {
        let dedup = |body: &str| match route(&Envelope::peek(body.as_bytes()).unwrap(), body) {
            Route::Queues(sends) => sends[0].dedup,
            Route::DirectMessage => panic!("not routed"),
        };
        let first = dedup(r#"{"team_id":"T1","event_id":"Ev1"}"#);
        assert_eq!(first, dedup(r#"{"team_id":"T1","event_id":"Ev1"}"#));
        assert_ne!(
            first,
            dedup(r#"{"team_id":"T1","event_id":"Ev1","x":1}"#),
            "a forged event must not suppress the real one"
        );
        assert_ne!(first, dedup(r#"{"team_id":"T1","event_id":"Ev2"}"#));
        assert_ne!(first, dedup(r#"{"team_id":"T2","event_id":"Ev1"}"#));
        assert_ne!(dedup(r#"{"team_id":"T1"}"#), dedup(r#"{"team_id":"T1","x":1}"#));
    }
}

//! Who reads and writes in a channel, as Slack shows it.

use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope;

/// Whom a channel reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// People of other workspaces write in it.
    pub(crate) shared: bool,
    /// Not everybody of the workspace may read it.
    pub(crate) private: bool,
}

/// Each flag for itself: one that is odd takes no other with it.
/// <https://docs.slack.dev/reference/objects/conversation-object>
#[derive(Default, Deserialize)]
struct Flags<'a> {
    #[serde(borrow, default)]
    is_ext_shared: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_org_shared: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_shared: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_private: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_im: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_mpim: Option<&'a RawValue>,
}

impl Reach {
    /// Of a channel as Slack's methods return it.
    pub(crate) fn of(channel: &RawValue) -> Self {
        let flags: Flags<'_> = envelope::object(channel);
        Self {
            shared: any([flags.is_ext_shared, flags.is_org_shared, flags.is_shared]),
            private: any([flags.is_private, flags.is_im, flags.is_mpim]),
        }
    }
}

fn any(flags: [Option<&RawValue>; 3]) -> bool {
    flags.into_iter().flatten().any(|flag| flag.get() == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_shared_or_private_where_any_flag_says_so() {
        for (json, shared, private) in [
            (r#"{"is_ext_shared":true}"#, true, false),
            (r#"{"is_org_shared":true,"is_ext_shared":false}"#, true, false),
            (r#"{"is_shared":true,"is_ext_shared":7}"#, true, false),
            (r#"{"is_ext_shared":false,"is_shared":false,"is_private":false}"#, false, false),
            (r#"{"is_ext_shared":"true","is_private":"true"}"#, false, false),
            (r#"{"is_private":true,"is_ext_shared":true}"#, true, true),
            (r#"{"is_private":null,"is_mpim":true}"#, false, true),
            (r#"{"is_im":true}"#, false, true),
            ("{}", false, false),
            ("[]", false, false),
        ] {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(Reach::of(&raw), Reach { shared, private }, "{json}");
        }
    }
}

//! Ids and timestamps, which become parts of keys and paths.

use ports::files::FileKey;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

/// A text is an id exactly if it has Slack's shape; each id becomes one part of a path; timestamps are
/// ordered by their numbers.
///
/// # Panics
/// If that does not hold.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    for text in [text, first, second] {
        let is_id = matches!(text.len(), 2..=30) && text.chars().all(|c| matches!(c, 'A'..='Z' | '0'..='9'));
        let parsed = [
            TeamId::parse(text).map(|id| id.to_string()).ok(),
            ChannelId::parse(text).map(|id| id.to_string()).ok(),
            UserId::parse(text).map(|id| id.to_string()).ok(),
            FileId::parse(text).map(|id| id.to_string()).ok(),
        ];
        for id in parsed {
            assert_eq!(id.as_deref(), is_id.then_some(text));
        }
        assert_eq!(Ts::parse(text).is_ok(), is_timestamp(text), "{text:?}");
        let is_of_message = is_timestamp(text) && text.len() == "1620000000.000200".len();
        assert_eq!(Ts::of_message(text).is_ok(), is_of_message, "{text:?}");
    }
    if let (Ok(first), Ok(second)) = (Ts::parse(first), Ts::parse(second)) {
        let as_numbers = first.micros().cmp(&second.micros());
        assert_eq!(first.padded().cmp(&second.padded()), as_numbers);
        // Two spellings of one time are two timestamps.
        assert_eq!(first.cmp(&second), as_numbers.then_with(|| first.as_str().cmp(second.as_str())));
    }
    if let (Ok(first), Ok(second)) = (Ts::of_message(first), Ts::of_message(second)) {
        assert_eq!(first.as_str().cmp(second.as_str()), first.micros().cmp(&second.micros()));
    }
    if let (Ok(team), Ok(ts)) = (TeamId::parse(first), Ts::parse(second)) {
        let channel = ChannelId::parse(first).expect("every id has the same shape");
        let file = FileId::parse(first).expect("every id has the same shape");
        let key = FileKey::shared(&team, &channel, &ts, &file);
        let parts: Vec<&str> = key.as_str().split('/').collect();
        assert_eq!(parts, ["slack", first, first, second, first]);
    }
    if let Ok(team) = TeamId::parse(first) {
        let key = FileKey::image(&team, second);
        let hash = key.as_str().rsplit('/').next().expect("a last part");
        assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    }
}

fn is_timestamp(text: &str) -> bool {
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    let [seconds, micros] = parts[..] else { return false };
    matches!(seconds.len(), 1..=12) && micros.len() == 6 && digits(seconds) && digits(micros)
}

//! Every key has its own location, even if it looks like another one or like a special name.

use ports::files::FileKey;
use slack::ids::TeamId;

use super::case::{FilesCase, key, noise, shared};

pub(super) async fn keys_with_a_common_prefix_are_distinct(case: FilesCase) {
    let keys = [
        key("F1"),
        key("F12"),
        shared("T1", "C1", "1700000000.000101", "F1"),
        shared("T1", "C12", "1700000000.000100", "F1"),
        shared("T12", "C1", "1700000000.000100", "F1"),
        // Names that are reserved on some systems are ids like any other.
        key("CON"),
        key("NUL"),
    ];
    for (seed, key) in (1..).zip(&keys) {
        case.put(key, &noise(seed, 100)).await;
    }
    for (seed, key) in (1..).zip(&keys) {
        case.expect(key, &noise(seed, 100)).await;
    }
}

pub(super) async fn the_longest_key_is_accepted(case: FilesCase) {
    let longest = "Z".repeat(30);
    let key = shared(&longest, &longest, "999999999999.999999", &longest);
    let content = noise(1, 100);
    case.put(&key, &content).await;
    case.expect(&key, &content).await;
}

pub(super) async fn an_image_is_identified_by_its_url(case: FilesCase) {
    let image = |team: &str, url: &str| FileKey::image(&TeamId::parse(team).unwrap(), url);
    let urls = [
        "https://a/x.png",
        "https://a/x.png?",
        "https://a/X.png",
        "../../../etc/passwd",
        "",
        &"x".repeat(100_000),
    ];
    for (seed, url) in (1..).zip(urls) {
        case.put(&image("T1", url), &noise(seed, 100)).await;
    }
    for (seed, url) in (1..).zip(urls) {
        case.expect(&image("T1", url), &noise(seed, 100)).await;
        assert_eq!(case.get(&image("T2", url)).await, None);
    }
}

//! Texts of a realistic length, made of plain words.

use std::sync::LazyLock;

/// The words, in a fixed order: a seed gives the same texts in every run.
static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let words = "the build failed again after lunch we should deploy before friday can somebody review this \
        branch please thanks looks good to me meeting moved customer asks about invoice numbers are \
        in sheet who owns search index café naïve 日本語 🚀 <@U000000001> `cargo test` \
        https://example.com/a?b=1 not sure why yes";
    words.split(' ').collect()
});

/// A text of about `bytes` bytes.
pub fn text(random: &mut fastrand::Rng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 24);
    while text.len() < bytes {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[random.usize(..WORDS.len())]);
    }
    text
}

/// A length as chat messages have it: mostly a line, sometimes a page.
pub fn length_bytes(random: &mut fastrand::Rng) -> usize {
    match random.u32(..100) {
        0..55 => random.usize(8..90),
        55..90 => random.usize(90..260),
        90..99 => random.usize(260..700),
        _ => random.usize(700..1500),
    }
}

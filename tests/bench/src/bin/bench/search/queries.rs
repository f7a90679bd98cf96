//! The 200 queries: from the most frequent words to words in a few messages, alone and combined.

use crate::import::export::{self, JAPANESE_WORDS, WORDS};

pub(crate) const QUERIES: usize = 200;

/// Number of queries with words alone, which the baselines can answer too.
pub(crate) const WORDS_ALONE: usize = 100;

/// Returns the queries. A message must contain all words of the first [`WORDS_ALONE`] queries.
pub(crate) fn queries() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut word = |greatest: usize| export::word_of_rank(random.usize(1..=greatest));
    let mut queries: Vec<String> = (1..=20).map(export::word_of_rank).collect();
    queries.extend((0..30).map(|_| word(WORDS)));
    queries.extend((0..30).map(|_| format!("{} {}", word(20), word(200))));
    queries.extend((0..20).map(|_| format!("{} {} {}", word(10), word(10), word(5_000))));
    queries.extend((0..15).map(|_| format!("\"{} {}\"", word(10), word(10))));
    queries.extend((1..=15).map(|rank| format!("w{rank:x}*")));
    queries.extend((0..15).map(|_| format!("{} -{}", word(20), word(5))));
    queries.extend((0..15).map(|n| format!("{} from:@person{}", word(20), n * 100)));
    queries.extend((0..15).map(|n| format!("{} in:#channel-{}", word(200), n * 6)));
    queries.extend(JAPANESE_WORDS.map(str::to_owned));
    queries.extend(
        ["has:reaction", "is:edited", "from:@person7", "in:#channel-3", "has:thread"].map(str::to_owned),
    );
    queries.extend((1..=6).map(|month| format!("{} during:2017-{:02}", word(50), month + 6)));
    queries.extend((1..=6).map(|n| format!("{} before:2018-0{n}-01 has:reaction", word(50))));
    assert_eq!(queries.len(), QUERIES);
    queries
}

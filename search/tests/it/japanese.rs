//! Text of scripts without spaces between words.

use reader::search::query::SearchQuery;

use crate::fixture::{SearchFixture, message, request};

const SENTENCES: [&str; 12] = [
    "明日の会議は午後三時から第一会議室で行います",
    "本番環境で障害が発生しましたので至急確認してください",
    "会議の議事録を共有しました",
    "デプロイが失敗しました",
    "ログを確認したところメモリ不足でした",
    "来週の月曜日は祝日です",
    "サーバーの再起動をお願いします",
    "新しい機能のリリースは来月の予定です",
    "お疲れ様です本日は在宅勤務です",
    "障害報告書の提出期限は金曜日です",
    "顧客からの問い合わせに対応しました",
    "今日の会議室は満室です",
];

fn ts(number: usize) -> String {
    format!("{}.000000", 1_700_000_000 + number)
}

#[tokio::test]
async fn any_part_of_a_japanese_text_finds_exactly_the_messages_that_contain_it() {
    let mut random = fastrand::Rng::with_seed(3);
    let fixture = SearchFixture::open().await;
    let texts: Vec<String> = (0..400)
        .map(|_| {
            let (one, other) = (SENTENCES[random.usize(..12)], SENTENCES[random.usize(..12)]);
            let cut = one.char_indices().nth(random.usize(..one.chars().count())).unwrap().0;
            format!("{}{other}", &one[..cut])
        })
        .collect();
    let messages: Vec<_> = texts.iter().enumerate().map(|(at, text)| message(&ts(at), text)).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.caught_up().await;
    for _ in 0..1_000 {
        let text: Vec<char> = texts[random.usize(..texts.len())].chars().collect();
        let length = random.usize(1..=6).min(text.len());
        let start = random.usize(..=text.len() - length);
        let part: String = text[start..start + length].iter().collect();
        let mut expected: Vec<String> =
            texts.iter().enumerate().filter(|(_, text)| text.contains(&part)).map(|(at, _)| ts(at)).collect();
        expected.reverse();
        assert_eq!(fixture.found(&index, &part).await, expected, "{part}");
    }
}

#[tokio::test]
async fn equivalent_forms_of_a_letter_match_and_different_letters_do_not() {
    let fixture = SearchFixture::open().await;
    let texts =
        ["ガス", "ｶﾞｽ", "カス", "ＤＥＰＬＯＹ 完了", "한국어 회의", "ประชุมวันนี้", "café", "CAFE", "障害A対応"];
    let messages: Vec<_> = texts.iter().enumerate().map(|(at, text)| message(&ts(at), text)).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.caught_up().await;
    for (query, expected) in [
        ("ガス", &[1, 0][..]),
        ("ｶﾞ", &[1, 0]),
        ("カス", &[2]),
        ("deploy", &[3]),
        ("회의", &[4]),
        ("한국", &[4]),
        ("ประชุม", &[5]),
        ("cafe", &[7, 6]),
        ("害a対", &[8]),
        ("障害 対応", &[8]),
    ] {
        let expected: Vec<String> = expected.iter().map(|at| ts(*at)).collect();
        assert_eq!(fixture.found(&index, query).await, expected, "{query}");
    }
    assert!(SearchQuery::parse("。、・").is_err());
    assert_eq!(fixture.answer(&index, request("ガス")).await.hits[0].snippet[0].text, "ｶﾞｽ");
}

#[tokio::test]
async fn the_name_of_a_mention_and_the_adjacent_text_match_as_one_text() {
    let fixture = SearchFixture::open().await;
    for (id, name) in [("U1", "田中"), ("U2", "kim"), ("U3", "山田太郎"), ("U4", "中村")] {
        fixture.person(id, name).await;
    }
    fixture.channels(&[("C9", "全社-連絡")]).await;
    let texts = [
        "<@U1>さん、お疲れ",
        "<@U2>さん、明日",
        "会議<@U4>",
        "<@U3>くん",
        "<#C9>先へ",
        "田と中とさん",
        "<@U1>",
    ];
    let messages: Vec<_> = texts.iter().enumerate().map(|(at, text)| message(&ts(at), text)).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.caught_up().await;
    for (query, expected) in [
        ("田中さん", &[0][..]),
        ("中さん", &[0]),
        ("中さ", &[0]),
        ("kimさん", &[1]),
        ("\"kim さん\"", &[1]),
        ("\"会議 中村\"", &[2]),
        ("\"会議 中\"", &[2]),
        ("太郎くん", &[3]),
        ("山田太郎くん", &[3]),
        ("連絡先", &[4]),
        ("田中", &[6, 0]),
        ("さん -田中さん", &[5, 1]),
    ] {
        let expected: Vec<String> = expected.iter().map(|at| ts(*at)).collect();
        assert_eq!(fixture.found(&index, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_name_of_more_people_than_the_limit_of_mentions_is_found() {
    let fixture = SearchFixture::open().await;
    for number in 0..600 {
        fixture.person(&format!("U{number:04}"), "ana").await;
    }
    let messages: Vec<_> = (0..600).map(|at| message(&ts(at), &format!("thanks <@U{at:04}>"))).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.caught_up().await;
    for query in ["ana", "\"thanks ana\"", "an*"] {
        assert_eq!(fixture.found(&index, query).await.len(), 600, "{query}");
    }
}

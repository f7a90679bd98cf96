//! Files and pictures come only from the store, with the type of their bytes.

use axum::http::Method;
use ports::archive::ArchiveExt;
use rules::file::FileObject;
use rules::file::row;
use serde_json::json;
use slack::ids::TeamId;

use crate::fixture::{ViewerFixture, link_with_rel, send_request};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";

#[tokio::test]
async fn safe_types_are_shown_and_other_files_are_downloaded() {
    let fixture = ViewerFixture::open();
    let files: [(&str, &str, &str, &[u8]); 4] = [
        ("F1", "image/png", "a.png", PNG),
        ("F2", "image/svg+xml", "x.svg", b"<svg onload=\"alert(1)\">"),
        ("F3", "image/png", "posing.png", b"<!DOCTYPE html><script>alert(1)</script>"),
        ("F4", "application/pdf", "plan.pdf", b"%PDF-1.7"),
    ];
    for (index, (id, mimetype, name, bytes)) in files.into_iter().enumerate() {
        let file =
            json!({ "id": id, "name": name, "mimetype": mimetype, "size": bytes.len(), "mode": "hosted" });
        fixture.share("C1", &format!("{}.000000", 1_700_001_000 + index), file, bytes).await;
    }
    for (id, content_type, disposition) in [
        ("F1", "image/png", "inline; filename*=UTF-8''a.png"),
        ("F2", "application/octet-stream", "attachment; filename*=UTF-8''x.svg"),
        ("F3", "application/octet-stream", "attachment; filename*=UTF-8''posing.png"),
        ("F4", "application/octet-stream", "attachment; filename*=UTF-8''plan.pdf"),
    ] {
        let answer = fixture.get(&format!("/files/T1/{id}")).await;
        assert_eq!(answer.status, 200, "{id}");
        assert_eq!(answer.header("content-type"), content_type, "{id}");
        assert_eq!(answer.header("content-disposition"), disposition, "{id}");
        assert!(answer.header("content-security-policy").starts_with("sandbox; default-src 'none'"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let whole = fixture.get("/files/T1/F4").await;
    assert_eq!((whole.body.as_str(), whole.header("content-length")), ("%PDF-1.7", "8"));
    let head =
        send_request(fixture.router(), Method::HEAD, "/files/T1/F4", &[("host", "localhost")], "").await;
    assert_eq!((head.status.as_u16(), head.body.as_str(), head.header("content-length")), (200, "", "8"));

    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains("<img src=\"/files/T1/F1\" alt=\"a.png\" loading=\"lazy\">"), "{page}");
    assert!(page.contains("<a class=\"file\" href=\"/files/T1/F2\" download>"));
    assert!(!page.contains("<img src=\"/files/T1/F2\""));
    let list = fixture.page("/files").await;
    assert!(
        list.contains("href=\"/files/T1/F4\" download><bdi>plan.pdf</bdi>")
            && list.contains("/archives/C1/p1700001003000000"),
        "{list}"
    );
}

#[tokio::test]
async fn a_part_of_a_file_can_be_requested() {
    let fixture = ViewerFixture::open();
    // The store returns it in several chunks.
    let bytes: Vec<u8> = (0..300_000).map(|n: u32| b"0123456789"[(n / 7 % 10) as usize]).collect();
    let file = json!({ "id": "F1", "name": "a.bin", "mimetype": "video/mp4", "size": bytes.len(), "mode": "hosted" });
    fixture.share("C1", "1700001000.000000", file, &bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let get = async |method: Method, range: &str| {
        let headers = [("host", "localhost"), ("range", range)];
        send_request(fixture.router(), method, "/files/T1/F1", &headers, "").await
    };
    for (range, part, content_range) in [
        ("bytes=0-9", 0..10, "bytes 0-9/300000"),
        ("bytes=100-200000", 100..200_001, "bytes 100-200000/300000"),
        ("bytes=250000-", 250_000..300_000, "bytes 250000-299999/300000"),
        ("bytes=-5", 299_995..300_000, "bytes 299995-299999/300000"),
    ] {
        let answer = get(Method::GET, range).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-range")), (206, content_range), "{range}");
        assert_eq!(answer.header("content-length"), part.len().to_string(), "{range}");
        assert!(answer.body == text[part], "{range}");
    }
    let outside = get(Method::GET, "bytes=300000-").await;
    assert_eq!((outside.status.as_u16(), outside.header("content-range")), (416, "bytes */300000"));
    for (method, range) in [(Method::GET, "bytes=0-1,5-6"), (Method::GET, "x"), (Method::HEAD, "bytes=0-9")] {
        let answer = get(method, range).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-length")), (200, "300000"), "{range}");
        assert_eq!(answer.header("accept-ranges"), "bytes");
    }
}

#[tokio::test]
async fn a_lost_or_missing_file_is_not_found() {
    let fixture = ViewerFixture::open();
    fixture
        .share(
            "C1",
            "1700001000.000000",
            json!({ "id": "F1", "name": "a.png", "mimetype": "image/png" }),
            PNG,
        )
        .await;
    fixture.delete_file_bytes("C1", "1700001000.000000", "F1").await;
    fixture
        .message("C1", json!({ "ts": "1700001001.000000", "text": "", "files": [{ "id": "F9", "name": "later.png", "mimetype": "image/png" }] }))
        .await;
    for path in
        ["/files/T1/F1", "/files/T1/F9", "/files/T9/F1", "/files/T1/..%2f..%2fannalist.db", "/files/T1/f%00"]
    {
        let answer = fixture.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.header("content-type").starts_with("text/html"), "{path}");
    }
    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains("<bdi>later.png</bdi> – it is not fetched yet"), "{page}");
    assert!(!page.contains("/files/T1/F9"));
}

#[tokio::test]
async fn pictures_come_from_the_store_by_their_hash_only() {
    let fixture = ViewerFixture::open();
    fixture.picture("abc123", PNG).await;
    let answer = fixture.get("/pictures/T1/abc123").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "image/png"));
    assert_eq!(answer.header("cache-control"), "private, max-age=3600");
    for path in ["/pictures/T1/abc124", "/pictures/T1/..", "/pictures/T1/%2e%2e%2fx", "/pictures/t1/abc123"] {
        assert_eq!(fixture.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn videos_and_sound_are_embedded() {
    let fixture = ViewerFixture::open();
    let files: [(&str, &str, &str, &[u8]); 3] = [
        ("F1", "video/mp4", "film.mp4", b"\0\0\0\x20ftypisom"),
        ("F2", "audio/mpeg", "song.mp3", b"ID3\x04"),
        ("F3", "image/heic", "photo.heic", b"\0\0\0\x18ftypheic"),
    ];
    for (index, (id, mimetype, name, bytes)) in files.into_iter().enumerate() {
        let file = json!({ "id": id, "name": name, "mimetype": mimetype, "mode": "hosted" });
        fixture.share("C1", &format!("{}.000000", 1_700_001_000 + index), file, bytes).await;
    }
    let page = fixture.page("/c/T1/C1").await;
    for expected in [
        "<video src=\"/files/T1/F1\" controls preload=\"none\" aria-label=\"film.mp4\"></video>",
        "<audio src=\"/files/T1/F2\" controls preload=\"none\" aria-label=\"song.mp3\"></audio>",
        "<a class=\"file\" href=\"/files/T1/F3\" download>",
    ] {
        assert!(page.contains(expected), "{expected} is not in {page}");
    }
    assert_eq!(page.matches("<video").count() + page.matches("<audio").count(), 2);
    for (id, content_type) in [("F1", "video/mp4"), ("F2", "audio/mpeg"), ("F3", "application/octet-stream")]
    {
        let answer = fixture.get(&format!("/files/T1/{id}")).await;
        assert_eq!(answer.header("content-type"), content_type, "{id}");
    }
}

#[tokio::test]
async fn a_canvas_has_a_page_with_its_text_and_each_version_opens_its_bytes() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let file = json!({ "id": "F1", "mode": "quip", "name": "Plan" });
    fixture.message("C1", json!({ "ts": "1700001000.000000", "text": "look", "files": [file] })).await;
    for (updated, text) in [(1_700_000_000, "first words"), (1_700_000_100, "second <b>words</b>")] {
        fixture.canvas(("C1", "1700001000.000000"), "F1", "Plan <b>", updated, text).await;
    }
    let page = fixture.page("/canvas/T1/F1").await;
    assert!(page.contains("<h1><bdi>Plan &lt;b&gt;</bdi></h1>"), "{page}");
    assert!(page.contains("second &lt;b&gt;words&lt;/b&gt;") && !page.contains("first words"), "{page}");
    let [old, new] = ["1700000000", "1700000100"].map(|updated| format!("/files/T1/F1?updated={updated}"));
    let [old_at, new_at] = [&old, &new].map(|address| page.find(address.as_str()).unwrap());
    assert!(new_at < old_at, "the newest first");
    for (address, bytes) in [
        (old.as_str(), "first words"),
        (&new, "second <b>words</b>"),
        ("/files/T1/F1", "second <b>words</b>"),
    ] {
        let answer = fixture.get(address).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, bytes), "{address}");
        assert!(answer.header("content-disposition").starts_with("attachment"), "{address}");
        assert!(answer.header("content-security-policy").starts_with("sandbox; default-src 'none'"));
    }
    for missing in ["/files/T1/F1?updated=7", "/files/T1/F1?updated=x", "/canvas/T1/F2", "/canvas/t/f"] {
        assert_eq!(fixture.get(missing).await.status, 404, "{missing}");
    }
    assert!(fixture.page("/files").await.contains("<a href=\"/canvas/T1/F1\">2 versions</a>"));
    let hits = fixture.page("/search?q=second").await;
    assert!(hits.contains("Canvas <a href=\"/canvas/T1/F1\"><bdi>Plan &lt;b&gt;</bdi></a>"), "{hits}");
}

#[tokio::test]
async fn files_are_listed_newest_first_and_filters_combine() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.channel("C2", "plans").await;
    fixture.person("U1", "Ana").await;
    fixture.person("U2", "Bo").await;
    let hostile = "<img src=x onerror=alert(1)>";
    let files = [
        ("F5", "C1", "U1", "image/png", "first.png"),
        ("F1", "C2", "U2", "application/pdf", "plan.pdf"),
        ("F4", "C2", "U1", "image/jpeg", "plan.jpg"),
        ("F2", "C1", "U2", "application/zip", hostile),
    ];
    for (n, (id, channel, user, mimetype, name)) in files.into_iter().enumerate() {
        let file = json!({ "id": id, "name": name, "mimetype": mimetype, "size": 9, "user": user });
        fixture.share(channel, &format!("{}.000000", 1_700_001_000 + n), file, PNG).await;
    }
    let waiting = json!({ "id": "F3", "name": "waits.mp4", "mimetype": "video/mp4", "user": "U2" });
    let object = FileObject::read(&waiting).unwrap();
    let team = TeamId::parse("T1").unwrap();
    fixture.archive().write(&row::seen(&team, &object, None)).await.unwrap();
    let listed = async |query: &str| {
        let page = fixture.page(&format!("/files?{query}")).await;
        assert!(!page.contains("<img src=x"), "{page}");
        page.split("data-file=\"").skip(1).map(|rest| rest[..2].to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (query, expected) in [
        ("", "F2 F4 F1 F5 F3"),
        ("q=PLAN", "F4 F1"),
        ("channel=C2", "F4 F1"),
        ("channel=%23plans&type=&state=&from=&q=", "F4 F1"),
        ("from=U1", "F4 F5"),
        ("from=%40bo", "F2 F1 F3"),
        ("type=image", "F4 F5"),
        ("type=video", "F3"),
        ("type=document", "F1"),
        ("type=other", "F2"),
        ("type=audio", ""),
        ("state=pending", "F3"),
        ("state=held&type=image&from=U1&channel=C2&q=plan", "F4"),
        ("state=held&type=image&from=U2", ""),
    ] {
        assert_eq!(listed(query).await, expected, "{query}");
    }
    let page = fixture.page("/files?from=U1&type=image").await;
    for part in [
        "<img class=\"thumbnail\" src=\"/files/T1/F4\" alt=\"plan.jpg\"",
        "<a href=\"/u/T1/U1\"><bdi>Ana</bdi></a>",
        "<bdi>#plans</bdi>",
        "value=\"U1\"",
        "<option value=\"image\" selected>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    for (query, reason) in [
        ("type=x", "There is no type x."),
        ("state=%3Cb%3E", "There is no state &lt;b&gt;."),
        ("channel=nosuch", "There is no channel nosuch."),
        ("from=stranger", "There is no person stranger."),
    ] {
        let answer = fixture.get(&format!("/files?{query}")).await;
        assert!(answer.status == 400 && answer.body.contains(reason), "{query}: {}", answer.body);
    }
    assert_eq!(fixture.get("/files?page=x").await.status, 400);
    assert_eq!(fixture.get("/files?page=99999999999999999999").await.status, 400);
}

#[tokio::test]
async fn a_list_of_files_is_paged_and_keeps_its_filters() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let team = TeamId::parse("T1").unwrap();
    for n in 0..120 {
        let kind = if n % 6 == 0 { "text/plain" } else { "image/png" };
        let file =
            json!({ "id": format!("F{n}"), "name": "a & b", "mimetype": kind, "created": 1_700_000_000 + n });
        let object = FileObject::read(&file).unwrap();
        fixture.archive().write(&row::seen(&team, &object, None)).await.unwrap();
    }
    let (mut address, mut found) = ("/files?q=a+%26+b&type=image".to_owned(), Vec::new());
    let mut pages = 0;
    loop {
        pages += 1;
        let page = fixture.page(&address).await;
        let ids = page.split("data-file=\"F").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        found.extend(ids.map(|id| id.parse::<u64>().unwrap()));
        let Some(next) = link_with_rel(&page, "next") else { break };
        address = next.replace("&amp;", "&");
        assert!(address.contains("type=image") && address.contains("q=a%20%26%20b"), "{address}");
    }
    let expected: Vec<u64> = (0..120).rev().filter(|n| n % 6 != 0).collect();
    assert_eq!((found, pages), (expected, 2));
}

#[tokio::test]
async fn the_first_page_names_the_newest_files_even_if_their_messages_have_ids_alone() {
    let fixture = ViewerFixture::open();
    let file =
        json!({ "id": "F1", "name": "plan.pdf", "mimetype": "application/pdf", "size": 8, "mode": "hosted" });
    fixture.share("C1", "1700001000.000000", file, b"%PDF-1.7").await;
    let fields =
        json!({ "ts": "1700002000.000000", "text": "again", "files": [{ "id": "F1" }, { "id": "F9" }] });
    fixture.message("C1", fields).await;
    let page = fixture.page("/").await;
    let (_, newest) = page.split_once("Newest files").unwrap();
    let at = |text: &str| newest.find(text).unwrap_or_else(|| panic!("{text}: {newest}"));
    assert!(at("<bdi>plan.pdf</bdi>, <bdi>a file</bdi>") < at("<bdi>plan.pdf</bdi></a>"));
    assert!(newest.contains("1700001000.000000"), "{newest}");
}

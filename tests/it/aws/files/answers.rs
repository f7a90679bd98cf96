//! Responses that S3 may send and an emulator does not.

use super::*;

/// An S3 with scripted answers, which receive the operation and the number of earlier requests.
async fn scripted(
    answer: impl Fn(&str, usize) -> ResponseTemplate + Send + Sync + 'static,
) -> (MockServer, Aws) {
    let server = MockServer::start().await;
    let count = AtomicUsize::new(0);
    let respond = move |request: &Request| {
        let operation = match (request.method.as_str(), request.url.query().unwrap_or_default()) {
            ("POST", query) if query.contains("uploads") => "create",
            ("POST", _) => "complete",
            ("PUT", query) if query.contains("partNumber") => "part",
            ("PUT", _) => "put",
            ("DELETE", _) => "abort",
            ("HEAD", _) => "head",
            _ => "get",
        };
        answer(operation, count.fetch_add(1, SeqCst))
    };
    Mock::given(any()).respond_with(respond).mount(&server).await;
    let aws = Stack::shared().aws_at(&server.uri(), fresh_names()).await;
    (server, aws)
}

fn ok() -> ResponseTemplate {
    ResponseTemplate::new(200).insert_header("ETag", "\"etag\"")
}

fn refused(status: u16, code: &str) -> ResponseTemplate {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>S3 says no</Message></Error>");
    ResponseTemplate::new(status).set_body_string(body)
}

/// Answers for multipart uploads that succeed up to their completion.
fn in_parts(operation: &str) -> ResponseTemplate {
    match operation {
        "create" => ok().set_body_string(
            "<InitiateMultipartUploadResult><UploadId>upload</UploadId></InitiateMultipartUploadResult>",
        ),
        "part" => ok(),
        "abort" => ResponseTemplate::new(204),
        other => panic!("{other}"),
    }
}

/// The number of requests with this method whose query contains `query`.
async fn count(server: &MockServer, method: &str, query: &str) -> usize {
    let requests = server.received_requests().await.unwrap();
    let matches = |request: &&Request| {
        request.method.as_str() == method && request.url.query().unwrap_or_default().contains(query)
    };
    requests.iter().filter(matches).count()
}

async fn publish(aws: &Aws, size_bytes: usize) -> Result<Published, FilesError> {
    begin(aws, &key("a"), &noise(1, size_bytes)).await.publish().await
}

#[tokio::test]
async fn a_file_is_uploaded_unchanged_and_only_under_a_free_key() {
    let (server, aws) = scripted(|_, _| ok()).await;
    let content = noise(1, 100_000);
    assert_eq!(begin(&aws, &key("a"), &content).await.publish().await, Ok(Published::New));
    let requests = server.received_requests().await.unwrap();
    let [put] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(put.body == content);
    assert_eq!(put.headers["if-none-match"], "*");
    // Many S3-compatible stores support neither.
    assert!(!put.headers.contains_key("content-encoding") && !put.headers.contains_key("x-amz-trailer"));
    let names: Vec<&str> = put.headers.keys().map(|name| name.as_str()).collect();
    assert!(!names.iter().any(|name| name.starts_with("x-amz-checksum")), "{names:?}");
}

#[tokio::test]
async fn parts_are_uploaded_unchanged_and_completed_only_under_a_free_key() {
    let (server, aws) = scripted(|operation, _| match operation {
        "complete" => ok().set_body_string("<CompleteMultipartUploadResult/>"),
        operation => in_parts(operation),
    })
    .await;
    assert_eq!(publish(&aws, 20 * MIB).await, Ok(Published::New));
    let requests = server.received_requests().await.unwrap();
    for request in &requests {
        let names: Vec<&str> = request.headers.keys().map(|name| name.as_str()).collect();
        assert!(!names.contains(&"x-amz-trailer") && !names.contains(&"content-encoding"), "{names:?}");
        let completes =
            request.method.as_str() == "POST" && !request.url.query().unwrap().contains("uploads");
        assert_eq!(names.contains(&"if-none-match"), completes);
    }
    let sizes: Vec<usize> = requests
        .iter()
        .filter(|request| request.method.as_str() == "PUT")
        .map(|part| part.body.len())
        .collect();
    assert_eq!(sizes, [8 * MIB, 8 * MIB, 4 * MIB]);
    assert_eq!(count(&server, "DELETE", "").await, 0);
}

#[tokio::test]
async fn an_existing_object_is_not_overwritten() {
    let (server, aws) = scripted(|operation, _| match operation {
        "put" | "complete" => refused(412, "PreconditionFailed"),
        operation => in_parts(operation),
    })
    .await;
    assert_eq!(publish(&aws, 10).await, Ok(Published::AlreadyThere));
    assert_eq!(count(&server, "PUT", "").await, 1);
    assert_eq!(publish(&aws, 9 * MIB).await, Ok(Published::AlreadyThere));
    assert_eq!(count(&server, "DELETE", "uploadId=upload").await, 1);
}

#[tokio::test]
async fn a_write_that_conflicts_with_another_is_retried() {
    let conflict = || refused(409, "ConditionalRequestConflict");
    let (server, aws) = scripted(move |_, earlier| if earlier < 2 { conflict() } else { ok() }).await;
    assert_eq!(publish(&aws, 10).await, Ok(Published::New));
    assert_eq!(count(&server, "PUT", "").await, 3);
    // But not forever.
    let (server, aws) = scripted(move |_, _| conflict()).await;
    assert!(matches!(publish(&aws, 10).await, Err(FilesError::Unavailable(_))));
    assert_eq!(count(&server, "PUT", "").await, 6);
}

#[tokio::test]
async fn a_long_file_that_conflicts_with_another_exists_or_must_be_written_again() {
    for code in ["ConditionalRequestConflict", "NoSuchUpload"] {
        let status = if code == "NoSuchUpload" { 404 } else { 409 };
        for (head, there) in [(200, true), (404, false)] {
            let (server, aws) = scripted(move |operation, _| match operation {
                "complete" => refused(status, code),
                "head" => ResponseTemplate::new(head),
                operation => in_parts(operation),
            })
            .await;
            let published = publish(&aws, 9 * MIB).await;
            match there {
                true => assert_eq!(published, Ok(Published::AlreadyThere)),
                false => assert!(matches!(published, Err(FilesError::Unavailable(_))), "{published:?}"),
            }
            assert_eq!(count(&server, "DELETE", "uploadId=upload").await, 1);
        }
    }
}

#[tokio::test]
async fn a_completion_with_status_200_and_an_error_body_has_failed() {
    // S3 may send the status before it knows the outcome.
    // https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
    let (_server, aws) = scripted(|operation, _| match operation {
        "complete" => refused(200, "InternalError"),
        operation => in_parts(operation),
    })
    .await;
    let published = publish(&aws, 9 * MIB).await;
    assert!(matches!(published, Err(FilesError::Unavailable(_))), "{published:?}");
}

#[tokio::test]
async fn a_transient_error_is_retried_and_a_lasting_one_is_returned() {
    for (status, code) in [(500, "InternalError"), (503, "SlowDown")] {
        let (server, aws) =
            scripted(move |_, earlier| if earlier < 3 { refused(status, code) } else { ok() }).await;
        assert_eq!(publish(&aws, 10).await, Ok(Published::New));
        assert_eq!(count(&server, "PUT", "").await, 4);
        let (server, aws) = scripted(move |_, _| refused(status, code)).await;
        let line = publish(&aws, 10).await.unwrap_err().to_string();
        assert!(line.contains(code) && !line.contains('\n'), "{line}");
        assert_eq!(count(&server, "PUT", "").await, 4);
    }
}

#[tokio::test]
async fn a_file_with_a_part_that_did_not_arrive_is_never_published() {
    let (server, aws) = scripted(|operation, _| match operation {
        "part" => refused(403, "AccessDenied"),
        operation => in_parts(operation),
    })
    .await;
    let mut writer = aws.files().create(&key("a")).await.unwrap();
    assert!(writer.write(noise(1, 9 * MIB)).await.is_err());
    assert!(writer.write(noise(1, 1)).await.is_err());
    assert!(writer.publish().await.is_err());
    assert_eq!(count(&server, "POST", "uploadId").await, 0);
}

#[tokio::test]
async fn every_refusal_is_one_line_that_names_what_to_set() {
    for (status, code, expected) in [
        (301, "PermanentRedirect", "AWS_REGION"),
        (404, "NoSuchBucket", "`annalist provision`"),
        (403, "AccessDenied", "ANNALIST_BUCKET"),
        (403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        (400, "ExpiredToken", "AWS_SESSION_TOKEN"),
        (501, "NotImplemented", "If-None-Match"),
    ] {
        let (_server, aws) = scripted(move |_, _| refused(status, code)).await;
        let mut errors = vec![publish(&aws, 10).await.unwrap_err()];
        if code != "NotImplemented" {
            errors.push(aws.files().open(&key("a")).await.err().unwrap());
            let mut long = aws.files().create(&key("a")).await.unwrap();
            errors.push(long.write(noise(1, 9 * MIB)).await.unwrap_err());
        }
        for line in errors.iter().map(ToString::to_string) {
            assert!(line.contains(expected) && !line.contains('\n'), "{code}: {line}");
        }
    }
}

#[tokio::test]
async fn readiness_depends_on_the_status_alone() {
    // The response to HEAD has no body, and so no code.
    for (status, expected) in [(301, "AWS_REGION"), (404, "`annalist provision`"), (403, "ANNALIST_BUCKET")] {
        let (_server, aws) = scripted(move |_, _| ResponseTemplate::new(status)).await;
        let line = aws.files().ready().await.unwrap_err().to_string();
        assert!(line.contains(expected) && !line.contains('\n'), "{status}: {line}");
    }
}

#[tokio::test]
async fn a_404_means_a_missing_file_with_its_code_or_without_a_code() {
    let (_server, aws) = scripted(|_, _| refused(404, "NoSuchKey")).await;
    assert_eq!(read(&aws, &key("a")).await, Ok(None));
    let (_server, aws) = scripted(|_, _| ResponseTemplate::new(404)).await;
    assert_eq!(read(&aws, &key("a")).await, Ok(None));
}

#[tokio::test]
async fn a_truncated_read_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(connection.read_u8().await.unwrap());
        }
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{}", "x".repeat(100));
        connection.write_all(answer.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
    });
    let aws = Stack::shared().aws_at(&endpoint, fresh_names()).await;
    let mut reader = aws.files().open(&key("a")).await.unwrap().unwrap();
    assert_eq!(reader.size_bytes(), 1000);
    let mut read_bytes = 0;
    let line = loop {
        match reader.next().await {
            Ok(chunk) => read_bytes += chunk.expect("this is not the end").len(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(read_bytes == 100 && line.contains("at byte 100 of 1000") && !line.contains('\n'), "{line}");
    // And it stays an error.
    assert!(reader.next().await.is_err());
    server.await.unwrap();
}

#[tokio::test]
async fn a_store_that_replaces_objects_is_not_used() {
    for (second, expected) in
        [(200, Err("conditional writes")), (412, Ok(())), (501, Err("conditional writes"))]
    {
        let server = MockServer::start().await;
        let written = AtomicUsize::new(0);
        let respond = move |request: &Request| match request.method.as_str() {
            "PUT" if written.fetch_add(1, SeqCst) > 0 => ResponseTemplate::new(second),
            _ => ok(),
        };
        Mock::given(any()).respond_with(respond).mount(&server).await;
        let sdk = Stack::shared().sdk(&server.uri()).await;
        let subject = CallSubject {
            service: "S3",
            resource: "bucket b".to_owned(),
            setting: "its name",
            to_create: "create it",
            region: "us-east-1".to_owned(),
        };
        let probed = std::sync::Arc::new(Bucket::new(&sdk, "b", "", subject)).probe().await;
        match expected {
            Ok(()) => assert_eq!(probed, Ok(())),
            Err(text) => assert!(probed.unwrap_err().to_string().contains(text)),
        }
        assert_eq!(count(&server, "PUT", "").await, 2, "{second}");
    }
}

#[tokio::test]
async fn a_store_without_versions_deletes_the_object_itself() {
    let server = MockServer::start().await;
    let name = key("a");
    let listed = format!(
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>{name}</Key><Size>1</Size></Contents>\
         <Contents><Key>{name}.1</Key><Size>1</Size></Contents></ListBucketResult>"
    );
    let respond =
        move |request: &Request| match (request.method.as_str(), request.url.query().unwrap_or_default()) {
            ("GET", query) if query.contains("versions") => refused(501, "NotImplemented"),
            ("GET", _) => ok().set_body_string(listed.clone()),
            _ => ok().set_body_string("<DeleteResult></DeleteResult>"),
        };
    Mock::given(any()).respond_with(respond).mount(&server).await;
    let aws = Stack::shared().aws_at(&server.uri(), fresh_names()).await;
    assert_eq!(aws.files().delete(&name).await, Ok(true));
    let requests = server.received_requests().await.unwrap();
    let deleted = requests.iter().find(|request| request.method.as_str() == "POST").unwrap();
    let body = String::from_utf8_lossy(&deleted.body);
    assert!(body.contains(&format!("<Key>{name}</Key>")) && !body.contains(".1<"), "{body}");
}

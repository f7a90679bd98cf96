//! Resources of other owners, and concurrent runs.

use super::*;

/// Asserts that nothing is created next to the one existing resource, and that the error names the setting to
/// change.
async fn assert_stopped(fixture: &ProvisionFixture, existing: &str, setting: &str) {
    for dry_run in [true, false] {
        let (steps, result) = run(&fixture.aws, Parts::ALL, dry_run).await;
        let error = result.unwrap_err();
        assert!(matches!(error, ProvisionError::Foreign { .. }), "{error:?}");
        let line = error.to_string();
        assert!(line.contains(existing) && line.contains(setting) && !line.contains('\n'), "{line}");
        assert_eq!(steps, []);
    }
    assert_eq!(fixture.resources().await, [existing]);
}

#[tokio::test]
async fn a_queue_of_another_owner_stops_everything_before_any_change() {
    for queue in [QueueRef::from(QueueName::Events), QueueRef::dead_letters(QueueName::Backfill)] {
        let fixture = ProvisionFixture::new().await;
        let name = fixture.names().queue(queue);
        fixture
            .sqs
            .create_queue()
            .queue_name(&name)
            .attributes(Attribute::FifoQueue, "true")
            .send()
            .await
            .unwrap();
        assert_stopped(&fixture, &name, "ANNALIST_PREFIX").await;
        // With the tag, the queue belongs to the installation.
        let tagged =
            fixture.sqs.tag_queue().queue_url(fixture.url(queue).await).tags(TAG, fixture.names().prefix());
        tagged.send().await.unwrap();
        steps(&fixture.aws, Parts::ALL).await;
    }
}

#[tokio::test]
async fn a_table_of_another_owner_stops_everything_before_any_change() {
    for (role, setting) in [
        (TableRole::Archive, "ANNALIST_TABLE"),
        (TableRole::Existence, "ANNALIST_EXISTENCE_TABLE"),
        (TableRole::Claims, "ANNALIST_CLAIMS_TABLE"),
    ] {
        let fixture = ProvisionFixture::new().await;
        let name = fixture.names().table(role);
        fixture.make_table(name, &[("id", ScalarAttributeType::S)], None).await;
        assert_stopped(&fixture, name, setting).await;
    }
}

#[tokio::test]
async fn a_table_of_another_installation_belongs_to_another_owner() {
    let fixture = ProvisionFixture::new().await;
    let name = fixture.names().table(TableRole::Archive);
    let text = ScalarAttributeType::S;
    fixture.make_table(name, &[("itemId", text.clone()), ("timestamp", text)], Some("other")).await;
    assert_stopped(&fixture, name, "`other`").await;
}

#[tokio::test]
async fn a_bucket_of_another_owner_stops_everything_before_any_change() {
    let fixture = ProvisionFixture::new().await;
    fixture.make_bucket(&[("cost", "other")]).await;
    assert_stopped(&fixture, fixture.names().bucket(), "ANNALIST_BUCKET").await;
}

#[tokio::test]
async fn two_concurrent_runs_do_no_harm() {
    let fixture = ProvisionFixture::new().await;
    let (first, second) =
        tokio::join!(run(&fixture.aws, Parts::ALL, false), run(&fixture.aws, Parts::ALL, false));
    assert_eq!((first.1, second.1), (Ok(()), Ok(())));
    assert_eq!(first.0.len(), everything(fixture.names()).len());
    assert_eq!(changes(&fixture.aws, Parts::ALL).await, Vec::<String>::new());
}

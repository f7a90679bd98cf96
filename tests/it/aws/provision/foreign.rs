//! Resources of other owners, and two runs at once.

use super::*;

/// Nothing is made beside the one thing that was there, and the line says what to do.
async fn assert_stopped(bench: &ProvisionFixture, there: &str, setting: &str) {
    for dry_run in [true, false] {
        let (steps, result) = run(&bench.aws, Parts::ALL, dry_run).await;
        let error = result.unwrap_err();
        assert!(matches!(error, ProvisionError::Foreign { .. }), "{error:?}");
        let line = error.to_string();
        assert!(line.contains(there) && line.contains(setting) && !line.contains('\n'), "{line}");
        assert_eq!(steps, []);
    }
    assert_eq!(bench.resources().await, [there]);
}

#[tokio::test]
async fn a_queue_of_another_owner_stops_everything_before_any_change() {
    for queue in [QueueRef::from(QueueName::Events), QueueRef::dead_letters(QueueName::Backfill)] {
        let bench = ProvisionFixture::new().await;
        let name = bench.names().queue(queue);
        bench
            .sqs
            .create_queue()
            .queue_name(&name)
            .attributes(Attribute::FifoQueue, "true")
            .send()
            .await
            .unwrap();
        assert_stopped(&bench, &name, "ANNALIST_PREFIX").await;
        // An owner that gives it the tag hands it over.
        let tagged =
            bench.sqs.tag_queue().queue_url(bench.url(queue).await).tags(TAG, bench.names().prefix());
        tagged.send().await.unwrap();
        steps(&bench.aws, Parts::ALL).await;
    }
}

#[tokio::test]
async fn a_table_of_another_owner_stops_everything_before_any_change() {
    for (role, setting) in [
        (TableRole::Archive, "ANNALIST_TABLE"),
        (TableRole::Existence, "ANNALIST_EXISTENCE_TABLE"),
        (TableRole::Claims, "ANNALIST_CLAIMS_TABLE"),
    ] {
        let bench = ProvisionFixture::new().await;
        let name = bench.names().table(role);
        bench.make_table(name, &[("id", ScalarAttributeType::S)], None).await;
        assert_stopped(&bench, name, setting).await;
    }
}

#[tokio::test]
async fn a_table_of_another_installation_belongs_to_another_owner() {
    let bench = ProvisionFixture::new().await;
    let name = bench.names().table(TableRole::Archive);
    let text = ScalarAttributeType::S;
    bench.make_table(name, &[("itemId", text.clone()), ("timestamp", text)], Some("other")).await;
    assert_stopped(&bench, name, "`other`").await;
}

#[tokio::test]
async fn a_bucket_of_another_owner_stops_everything_before_any_change() {
    let bench = ProvisionFixture::new().await;
    bench.make_bucket(&[("cost", "other")]).await;
    assert_stopped(&bench, bench.names().bucket(), "ANNALIST_BUCKET").await;
}

#[tokio::test]
async fn a_table_with_other_keys_stops_everything_before_any_change() {
    let (text, number) = (ScalarAttributeType::S, ScalarAttributeType::N);
    for (keys, says) in [
        (vec![("itemId", text.clone()), ("time", text.clone())], "itemId and time, not itemId and timestamp"),
        (vec![("itemId", text.clone())], "its keys are itemId, not"),
        (vec![("itemId", text), ("timestamp", number)], "timestamp is no string"),
    ] {
        let bench = ProvisionFixture::new().await;
        let name = bench.names().table(TableRole::Archive);
        bench.make_table(name, &keys, Some(bench.names().prefix())).await;
        let (steps, result) = run(&bench.aws, Parts::ALL, false).await;
        let line = result.unwrap_err().to_string();
        assert!(line.contains(says) && line.contains("ANNALIST_TABLE") && !line.contains('\n'), "{line}");
        assert_eq!((steps, bench.resources().await), (Vec::new(), vec![name.to_owned()]));
    }
}

#[tokio::test]
async fn two_runs_at_once_do_no_harm() {
    let bench = ProvisionFixture::new().await;
    let (first, second) =
        tokio::join!(run(&bench.aws, Parts::ALL, false), run(&bench.aws, Parts::ALL, false));
    assert_eq!((first.1, second.1), (Ok(()), Ok(())));
    assert_eq!(first.0.len(), everything(bench.names()).len());
    assert_eq!(changes(&bench.aws, Parts::ALL).await, Vec::<String>::new());
}

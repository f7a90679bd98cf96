//! Tables in the documentation that are generated from code.

use std::path::Path;

use aws_resources::permissions;
use aws_resources::summary::SUMMARY;
use ports::archive::rows;
use ports::metrics::{self, METRICS};
use ports::queue::topology;

fn assert_shows(file: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(table),
        "{file} should show this table, which is generated from the code:\n\n{table}"
    );
}

#[test]
fn the_topology_is_documented() {
    assert_shows("docs/queues.md", &topology::markdown_table());
}

#[test]
fn the_kinds_of_rows_are_documented() {
    assert_shows("docs/rows.md", &rows::markdown_table());
}

#[test]
fn the_events_are_documented() {
    assert_shows("docs/events.md", &slack::catalogue::markdown_table());
}

#[test]
fn the_reading_of_messages_is_documented() {
    assert_shows("docs/messages.md", &reader::text::kinds::blocks_table());
    assert_shows("docs/messages.md", &reader::text::kinds::elements_table());
}

#[test]
fn every_metric_is_documented() {
    assert_shows("docs/metrics.md", &metrics::markdown_table(METRICS));
    assert_shows("docs/metrics.md", &metrics::markdown_table(&SUMMARY));
}

#[test]
fn the_monthly_cost_on_aws_is_documented() {
    assert_shows("docs/deploy-aws.md", &tests::bill::markdown_table());
}

#[test]
fn the_permissions_on_aws_are_documented() {
    assert_shows("docs/aws.md", &permissions::markdown_table());
}

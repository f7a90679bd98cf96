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

#[test]
fn the_readme_comes_to_a_result_on_one_screen_and_says_what_is_allowed_and_which_tool_is_for_what() {
    const SCREEN_LINES: usize = 40;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let screen: Vec<&str> = readme.lines().take(SCREEN_LINES).collect();
    for shown in
        ["bin/annalist demo", "cargo run -- demo", "annalist setup", "annalist up", "http://127.0.0.1:3002/"]
    {
        assert!(screen.iter().any(|line| line.contains(shown)), "{shown} is not on the first screen");
    }
    let section = |title: &str| {
        let (_, section) = readme.split_once(&format!("\n## {title}\n")).expect(title);
        section.split("\n## ").next().unwrap_or_default().to_owned()
    };
    let allowed = section("Is this allowed?");
    for said in [
        "https://docs.slack.dev/changelog/2025/10/13/api-terms-update",
        "https://docs.slack.dev/apis/web-api/rate-limits",
        "docs/consent.md",
    ] {
        assert!(allowed.contains(said), "{said}");
    }
    let tools = section("Which tool for what");
    for tool in ["Annalist", "slackdump", "msgvault", "slack-export-viewer", "export", "Discovery API"] {
        assert!(tools.lines().any(|line| line.starts_with('|') && line.contains(tool)), "{tool}");
    }
}

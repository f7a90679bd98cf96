//! The plans as docs/capacity.md.

use ::tests::bill::{self, OneMessage};

use super::model::{CapacityPlan, demand, workspaces_of_the_functions};
use super::quotas;

/// A number with about three digits, or in thousands.
fn number(value: f64) -> String {
    if value >= 1_000.0 {
        let digits = format!("{value:.0}");
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    } else if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

fn row(page: &mut String, cells: &[String]) {
    page.push_str(&format!("| {} |\n", cells.join(" | ")));
}

fn head(page: &mut String, cells: &[String]) {
    row(page, cells);
    page.push_str(&"|---".repeat(cells.len()));
    page.push_str("|\n");
}

fn texts(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

/// The page. The plans are of one region, and there is one at least.
pub(crate) fn markdown(plans: &[CapacityPlan]) -> String {
    let sizes: Vec<String> = plans.iter().map(|plan| plan.workspaces.to_string()).collect();
    let region = plans.first().map_or("", |plan| plan.region.as_str());
    let mut page = format!(
        "# Capacity\n\n\
         How many workspaces an installation on AWS holds, what limits it, and what it costs. This page is the output of\n\n\
         ```console\ncargo run --release -p bench --bin capacity -- --workspaces {} --region {region} --markdown\n```\n\n\
         and a test compares them. Other numbers and regions print other tables; `--json` prints the same for programs. It is arithmetic, no measurement: the counts of\n\
         requests are those of [the bill](deploy-aws.md#what-it-costs), which tests measure. An installation is a *cell*, in an account of its own: [several workspaces](several-workspaces.md).\n\n",
        sizes.join(",")
    );
    assumptions(&mut page);
    summary(&mut page, plans);
    stages(&mut page, plans);
    failures(&mut page, plans);
    page.push_str("\n## Regions\n\nCalls a second of each action on queues of high throughput:\n\n");
    head(&mut page, &texts(&["region", "calls/s"]));
    for (regions, limit) in quotas::regions() {
        row(&mut page, &[regions, number(limit)]);
    }
    page
}

fn assumptions(page: &mut String) {
    page.push_str("## What is assumed\n\n");
    head(page, &texts(&["of a workspace", "number"]));
    for (name, value) in [
        ("events a day, each counted as a message", number(demand::EVENTS_PER_DAY)),
        ("the busiest minute, compared with the mean", format!("{} times", number(demand::PEAK))),
        ("events an hour that Slack delivers at most", number(demand::SLACK_EVENTS_PER_HOUR)),
        ("write units of a message", number(OneMessage::WRITE_UNITS)),
        (
            "files for each message, and write units of a file",
            format!("{}, {}", number(bill::FILES), number(bill::UNITS_OF_A_FILE)),
        ),
        ("seconds of the message-writer for a batch", number(OneMessage::WRITER_S)),
        ("seconds for a file", number(bill::FILE_S)),
        ("seconds for the hourly sync of the directory", number(bill::SYNC_S)),
    ] {
        row(page, &[name.to_owned(), value]);
    }
}

fn summary(page: &mut String, plans: &[CapacityPlan]) {
    page.push_str(
        "\n## In all\n\n\
         Dollars a month at the list prices of us-east-1, without what is free. *Storage* is that of everything that a year has added. *Drain* is how long the events of an outage\n\
         of all workers take afterwards.\n\n",
    );
    head(
        page,
        &texts(&[
            "workspaces",
            "cells",
            "events/s, mean",
            "peak",
            "what binds",
            "used",
            "requests, $",
            "storage, $",
            "for each workspace, $",
            "drain of 1 h, min",
            "of 24 h, min",
        ]),
    );
    for plan in plans {
        let minutes = |drain: Option<f64>| drain.map_or("never".to_owned(), number);
        let [hour, day] = &plan.drain;
        row(
            page,
            &[
                number(plan.workspaces as f64),
                number(plan.cells as f64),
                number(plan.events_per_s.mean),
                number(plan.events_per_s.peak),
                format!("{}: {}", plan.binding.stage, plan.binding.quota),
                format!("{:.1} %", 100.0 * plan.binding.utilisation),
                number(plan.cost.requests),
                number(plan.cost.storage_year),
                format!("{:.2}", plan.cost.per_workspace),
                minutes(hour.minutes),
                minutes(day.minutes),
            ],
        );
    }
}

fn stages(page: &mut String, plans: &[CapacityPlan]) {
    page.push_str(
        "\n## Stages of a cell\n\n\
         How much of each limit the busiest minute uses, in a cell of each of these sizes. What is over 100 % has to be raised first: a parameter of the template, or a request to AWS.\n\
         *Functions* counts the worst moment of a night: every worker without a limit runs a function for every workspace, so that ",
    );
    page.push_str(&format!(
        "{} workspaces fit: request more functions before\n\
         a cell is larger. These workers have no limit because of its price: with one, Lambda [polls a quiet queue](deploy-aws.md#what-it-costs) with five pollers instead of two, for ${:.2} a month in every installation.\n\n",
        number(workspaces_of_the_functions()),
        bill::limits_for_all(),
    ));
    let mut titles = texts(&["stage", "limit", "is", "can be raised"]);
    titles.extend(plans.iter().map(|plan| format!("of {}", number(plan.workspaces as f64))));
    head(page, &titles);
    let Some(first) = plans.first() else { return };
    for (index, stage) in first.stages.iter().enumerate() {
        let raised = if stage.adjustable { "yes" } else { "no" };
        let mut cells = vec![
            stage.stage.to_owned(),
            format!("[{}]({})", stage.quota, stage.source),
            format!("{} {}", number(stage.limit), stage.unit),
            raised.to_owned(),
        ];
        cells.extend(plans.iter().map(|plan| format!("{:.1} %", 100.0 * plan.stages[index].utilisation)));
        row(page, &cells);
    }
}

fn failures(page: &mut String, plans: &[CapacityPlan]) {
    page.push_str("\n## What a failure reaches\n\n");
    let mut titles = texts(&["failure", "effect"]);
    titles.extend(plans.iter().map(|plan| format!("workspaces of {}", number(plan.workspaces as f64))));
    head(page, &titles);
    let Some(first) = plans.first() else { return };
    for (index, blast) in first.blast_radius.iter().enumerate() {
        let mut cells = texts(&[blast.failure, blast.effect]);
        cells.extend(plans.iter().map(|plan| number(plan.blast_radius[index].workspaces as f64)));
        row(page, &cells);
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::plan;
    use super::*;

    #[test]
    fn the_page_is_the_output() {
        let page = include_str!("../../../../../docs/capacity.md");
        let plans = [10, 1_000, 100_000].map(|workspaces| plan(workspaces, "us-east-1"));
        assert!(page == markdown(&plans), "docs/capacity.md should be this:\n\n{}", markdown(&plans));
    }
}

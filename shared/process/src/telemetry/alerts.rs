//! Alert rules for Prometheus, generated from the table of metrics.
//! <https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/>

use ports::metrics::{Alert, AlertCondition, METRICS, Severity};

/// The PromQL expression for a condition of a metric.
fn expression(metric: &str, condition: &AlertCondition) -> String {
    match condition {
        AlertCondition::Grew { selector, by, within } => {
            let (series, by) = (braced(metric, selector), grouped(by));
            format!(
                "(sum{by} (increase({series}[{within}])) > 0) or (sum{by} ({series} unless {series} offset {within}) > 0)"
            )
        }
        AlertCondition::Grows { selector, by } => {
            format!("sum{} (rate({}[5m])) > 0", grouped(by), braced(metric, selector))
        }
        AlertCondition::Above { selector, by, bound } => {
            format!("max{} ({}) > {bound}", grouped(by), braced(metric, selector))
        }
        AlertCondition::Absent => format!("absent({metric})"),
    }
}

/// Every alert with the name of its metric.
fn alerts() -> impl Iterator<Item = (&'static str, &'static Alert)> {
    METRICS.iter().flat_map(|metric| metric.alerts.iter().map(|alert| (metric.name, alert)))
}

fn braced(metric: &str, selector: &str) -> String {
    if selector.is_empty() { metric.to_owned() } else { format!("{metric}{{{selector}}}") }
}

fn grouped(by: &str) -> String {
    if by.is_empty() { String::new() } else { format!(" by ({by})") }
}

/// The rules as a file for `rule_files` in the Prometheus configuration.
pub fn prometheus_rules() -> String {
    let mut file = String::from(
        "# Made by `annalist dashboards`, from the table of metrics. Name it under rule_files in prometheus.yml.\n\
         groups:\n  - name: annalist\n    rules:\n",
    );
    for (metric, alert) in alerts() {
        let severity = match alert.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
        };
        // Within single quotes YAML has only one escape: a doubled quote.
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        file += &format!("      - alert: {}\n", alert.name);
        file += &format!("        expr: {}\n", quoted(&expression(metric, &alert.when)));
        file += &format!("        for: {}\n", alert.lasts);
        file += &format!("        labels:\n          severity: {severity}\n");
        file += &format!("        annotations:\n          summary: {}\n", quoted(alert.summary));
        file += &format!("          description: {}\n", quoted(alert.next));
    }
    file
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use ports::metrics::MetricKind;
    use ports::queue::topology::{QUEUES, QueueRole};

    /// Names of labels in `a="b", c=~"d"`, or in `a, c`.
    fn labels(list: &str) -> Vec<&str> {
        list.split(", ")
            .map(|part| part.split(['=', '!']).next().unwrap())
            .filter(|l| !l.is_empty())
            .collect()
    }

    #[test]
    fn rules_name_only_metrics_and_labels_that_exist() {
        let all = METRICS.iter().flat_map(|metric| metric.alerts.iter().map(move |alert| (metric, alert)));
        for (metric, alert) in all {
            let (selector, by, kind) = match alert.when {
                AlertCondition::Grew { selector, by, .. } | AlertCondition::Grows { selector, by } => {
                    (selector, by, Some(MetricKind::Counter))
                }
                AlertCondition::Above { selector, by, .. } => (selector, by, None),
                AlertCondition::Absent => ("", "", None),
            };
            assert!(kind.is_none_or(|kind| kind == metric.kind), "{}", alert.name);
            let known: BTreeSet<&str> = metric.labels.split(", ").chain(["instance"]).collect();
            for label in labels(selector).into_iter().chain(labels(by)) {
                let is_quantile = label == "quantile" && metric.kind == MetricKind::Histogram;
                assert!(known.contains(label) || is_quantile, "{} has no {label}", metric.name);
            }
            // A summary uses only labels that the expression keeps.
            for placeholder in alert.summary.split("$labels.").skip(1) {
                let label = placeholder.split(' ').next().unwrap();
                assert!(labels(by).contains(&label), "{}: {label}", alert.name);
            }
            // Selectors use only outcomes that the table lists.
            if let Some((_, values)) = metric.help.split_once("outcome: ") {
                let values: BTreeSet<&str> =
                    values.trim_end_matches('.').split([',', ':']).map(str::trim).collect();
                let outcomes = selector.split_once("outcome").map_or("", |(_, outcomes)| outcomes);
                for value in outcomes.split(['"', '|']).filter(|value| {
                    value.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !value.is_empty()
                }) {
                    assert!(values.contains(value), "{} has no outcome {value}", metric.name);
                }
            }
        }
    }

    /// Parses the YAML subset of the rules file: maps and lists by indentation, and plain or quoted scalars.
    fn read(file: &str) -> Vec<Vec<(String, String)>> {
        let mut rules = Vec::new();
        for line in file.lines().skip(1) {
            assert!(!line.contains('\t') && !line.ends_with(' '), "{line:?}");
            let (name, value) = line.split_once(':').unwrap();
            let value = value.strip_prefix(' ').unwrap_or(value);
            let value = match value.strip_prefix('\'') {
                Some(quoted) => {
                    let inner = quoted.strip_suffix('\'').unwrap();
                    assert!(!inner.replace("''", "").contains('\''), "{line}");
                    inner.replace("''", "'")
                }
                None => {
                    assert!(value.chars().all(|c| c.is_ascii_alphanumeric()), "{line}");
                    value.to_owned()
                }
            };
            if let Some(alert) = name.strip_prefix("      - ") {
                rules.push(vec![(alert.to_owned(), value)]);
            } else if let Some(rule) = rules.last_mut() {
                assert!(name.starts_with("        "), "{line}");
                rule.push((name.trim_start().to_owned(), value));
            }
        }
        rules
    }

    #[test]
    fn the_file_contains_each_rule_completely() {
        let rules = read(&prometheus_rules());
        assert_eq!(rules.len(), alerts().count());
        let mut names = BTreeSet::new();
        for (rule, (metric, alert)) in rules.iter().zip(alerts()) {
            let fields: Vec<&str> = rule.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                fields,
                ["alert", "expr", "for", "labels", "severity", "annotations", "summary", "description"]
            );
            assert_eq!(
                (rule[0].1.as_str(), rule[1].1.as_str()),
                (alert.name, expression(metric, &alert.when).as_str())
            );
            assert!(names.insert(alert.name), "{} twice", alert.name);
            let (open, closed) =
                (rule[1].1.matches(['(', '{', '[']).count(), rule[1].1.matches([')', '}', ']']).count());
            assert_eq!(open, closed, "{}", rule[1].1);
        }
    }

    #[test]
    fn an_alert_watches_the_age_of_every_live_queue() {
        let watched: Vec<String> = alerts()
            .filter(|(metric, _)| *metric == ports::metrics::QUEUE_OLDEST_AGE)
            .map(|(metric, alert)| expression(metric, &alert.when))
            .collect();
        for queue in QUEUES.iter().filter(|queue| queue.role == QueueRole::Live) {
            assert!(
                watched.iter().any(|expression| expression.contains(queue.label)),
                "{}: {watched:?}",
                queue.label
            );
        }
    }
}

//! Alert rules for Prometheus, as a table.
//! <https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/>

use ports::metrics::{
    CLAIM_FALLBACK, DIRECTORY_SYNCS, EXISTENCE_BREAKERS, FILES, INGEST_REFUSED, INGEST_REQUESTS,
    INGEST_RETRIES, INGEST_SECONDS, QUEUE_DEAD, QUEUE_OLDEST_AGE, QUEUE_WAITING, WEB_API_CALLS,
    WORKER_BLOCKED_GROUPS, WORKER_HEARTBEAT_FAILURES, WORKER_JOBS,
};

/// How soon a person should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Events are being lost, or will be.
    Critical,
    /// Something does not go on by itself.
    Warning,
}

/// What is wrong, as a question to Prometheus.
enum Condition {
    /// The counter grew within this time. One that was not there before grew too: `increase` alone does not see the first.
    Grew { metric: &'static str, selector: &'static str, by: &'static str, within: &'static str },
    /// The counter grows all the time.
    Grows { metric: &'static str, selector: &'static str, by: &'static str },
    /// The gauge, or the quantile, is above this in any process.
    Above { metric: &'static str, selector: &'static str, by: &'static str, bound: u32 },
    /// No process exports the metric.
    Absent { metric: &'static str },
}

struct Alert {
    name: &'static str,
    condition: Condition,
    /// It has to be so for this long.
    lasts: &'static str,
    severity: Severity,
    summary: &'static str,
    /// What to do about it.
    next: &'static str,
}

const ALERTS: &[Alert] = &[
    Alert {
        name: "AnnalistSilent",
        condition: Condition::Absent { metric: QUEUE_WAITING },
        lasts: "5m",
        severity: Severity::Critical,
        summary: "No part of Annalist exports metrics",
        next: "See whether it runs, and whether Prometheus reaches its --metrics-listen address.",
    },
    Alert {
        name: "AnnalistEventsNotKept",
        condition: Condition::Grew {
            metric: INGEST_REQUESTS,
            selector: "outcome=~\"queue_failed|queue_slow|shed\"",
            by: "outcome",
            within: "5m",
        },
        lasts: "2m",
        severity: Severity::Critical,
        summary: "Ingest answers 5xx: events could not be put on the queue ({{ $labels.outcome }})",
        next: "Look into the log of ingest: the disk may be full, or the queue out of reach. Slack tries again, but not for ever.",
    },
    Alert {
        name: "AnnalistIngestSlow",
        condition: Condition::Above {
            metric: INGEST_SECONDS,
            selector: "quantile=\"0.99\"",
            by: "instance",
            bound: 2,
        },
        lasts: "5m",
        severity: Severity::Warning,
        summary: "One answer in a hundred takes more than 2 s",
        next: "Slack waits for 3 s: give the disk or the queue less to do.",
    },
    Alert {
        name: "AnnalistSignaturesRefused",
        condition: Condition::Grows { metric: INGEST_REFUSED, selector: "", by: "reason" },
        lasts: "15m",
        severity: Severity::Warning,
        summary: "Requests that are not signed by Slack keep coming ({{ $labels.reason }})",
        next: "If Slack's own are refused, the signing secret or the clock is wrong: annalist doctor. Else a client is guessing.",
    },
    Alert {
        name: "AnnalistSlackRetries",
        condition: Condition::Grows { metric: INGEST_RETRIES, selector: "", by: "reason" },
        lasts: "15m",
        severity: Severity::Warning,
        summary: "Slack delivers again and again: it did not get an answer in time ({{ $labels.reason }})",
        next: "Check what is between Slack and ingest: the proxy, the tunnel, the certificate.",
    },
    Alert {
        name: "AnnalistEventsHeldBack",
        condition: Condition::Grew {
            metric: INGEST_REQUESTS,
            selector: "outcome=\"rate_limited\"",
            by: "",
            within: "15m",
        },
        lasts: "0m",
        severity: Severity::Warning,
        summary: "Slack dropped the events of a minute: there were more than 30,000 in an hour",
        next: "annalist gaps lists the minutes.",
    },
    Alert {
        name: "AnnalistQueueOld",
        condition: Condition::Above {
            metric: QUEUE_OLDEST_AGE,
            selector: "queue!=\"files\"",
            by: "queue",
            bound: 600,
        },
        lasts: "5m",
        severity: Severity::Critical,
        summary: "A job has waited on {{ $labels.queue }} for more than ten minutes",
        next: "annalist status; the log of the queue's worker says what it tries again, and why.",
    },
    Alert {
        name: "AnnalistFilesOld",
        condition: Condition::Above {
            metric: QUEUE_OLDEST_AGE,
            selector: "queue=\"files\"",
            by: "queue",
            bound: 21_600,
        },
        lasts: "15m",
        severity: Severity::Warning,
        summary: "A file has waited for more than six hours",
        next: "The log of the file-downloader says why; Slack hides files after a while.",
    },
    Alert {
        name: "AnnalistJobsRetrying",
        condition: Condition::Grows { metric: WORKER_JOBS, selector: "outcome=\"retry\"", by: "worker" },
        lasts: "30m",
        severity: Severity::Warning,
        summary: "The {{ $labels.worker }} has been trying jobs again for half an hour",
        next: "Its log says why: each line names the reason.",
    },
    Alert {
        name: "AnnalistGroupsBlocked",
        condition: Condition::Above { metric: WORKER_BLOCKED_GROUPS, selector: "", by: "worker", bound: 0 },
        lasts: "30m",
        severity: Severity::Warning,
        summary: "Message groups of the {{ $labels.worker }} wait behind a job that fails",
        next: "Its log names the group and the reason.",
    },
    Alert {
        name: "AnnalistWorkerPanicked",
        condition: Condition::Grew {
            metric: WORKER_JOBS,
            selector: "outcome=\"panicked\"",
            by: "worker",
            within: "1h",
        },
        lasts: "0m",
        severity: Severity::Warning,
        summary: "A job crashed the {{ $labels.worker }}",
        next: "Three times, and it is put in quarantine. Please report what the log says.",
    },
    Alert {
        name: "AnnalistJobQuarantined",
        condition: Condition::Grew {
            metric: WORKER_JOBS,
            selector: "outcome=\"quarantined\"",
            by: "worker",
            within: "1h",
        },
        lasts: "0m",
        severity: Severity::Warning,
        summary: "The {{ $labels.worker }} put a job aside that it could not store",
        next: "annalist quarantine list says why; replay or drop it.",
    },
    Alert {
        name: "AnnalistDeadLetters",
        condition: Condition::Above { metric: QUEUE_DEAD, selector: "", by: "queue", bound: 0 },
        lasts: "15m",
        severity: Severity::Warning,
        summary: "Dead letters of {{ $labels.queue }} stay where they are",
        next: "They move to quarantine while the worker of that queue runs; its log says why they do not.",
    },
    Alert {
        name: "AnnalistLeasesNotRenewed",
        condition: Condition::Grew {
            metric: WORKER_HEARTBEAT_FAILURES,
            selector: "",
            by: "worker",
            within: "15m",
        },
        lasts: "0m",
        severity: Severity::Warning,
        summary: "The {{ $labels.worker }} could not renew its leases",
        next: "Nothing is lost, but work is done twice: the queue is out of reach, or the machine has too much to do.",
    },
    Alert {
        name: "AnnalistSlackApiFailing",
        condition: Condition::Grows {
            metric: WEB_API_CALLS,
            selector: "outcome=~\"refused|unreachable|garbled\"",
            by: "method, outcome",
        },
        lasts: "30m",
        severity: Severity::Warning,
        summary: "Slack's {{ $labels.method }} fails ({{ $labels.outcome }})",
        next: "annalist doctor asks Slack what is wrong with the token.",
    },
    Alert {
        name: "AnnalistExistenceCheckWaits",
        condition: Condition::Above { metric: EXISTENCE_BREAKERS, selector: "", by: "instance", bound: 0 },
        lasts: "5m",
        severity: Severity::Warning,
        summary: "Slack does not say whether what events claim exists: they wait",
        next: "annalist status says why. Nothing is lost meanwhile.",
    },
    Alert {
        name: "AnnalistClaimsInMemory",
        condition: Condition::Above { metric: CLAIM_FALLBACK, selector: "", by: "instance", bound: 0 },
        lasts: "15m",
        severity: Severity::Warning,
        summary: "The table of claims is out of reach",
        next: "Files are fetched all the same, some of them twice. The log of the file-downloader says what fails.",
    },
    Alert {
        name: "AnnalistDirectoryNotSynced",
        condition: Condition::Grew {
            metric: DIRECTORY_SYNCS,
            selector: "outcome=\"failed\"",
            by: "",
            within: "3h",
        },
        lasts: "2h",
        severity: Severity::Warning,
        summary: "Slack's directory could not be read for hours",
        next: "annalist sync says what is wrong.",
    },
    Alert {
        name: "AnnalistFilesFailed",
        condition: Condition::Grew { metric: FILES, selector: "outcome=\"failed\"", by: "", within: "1h" },
        lasts: "0m",
        severity: Severity::Warning,
        summary: "Files could not be fetched",
        next: "annalist files says why; annalist files retry tries again.",
    },
];

impl Condition {
    fn expression(&self) -> String {
        match self {
            Self::Grew { metric, selector, by, within } => {
                let (series, by) = (braced(metric, selector), grouped(by));
                format!(
                    "(sum{by} (increase({series}[{within}])) > 0) or (sum{by} ({series} unless {series} offset {within}) > 0)"
                )
            }
            Self::Grows { metric, selector, by } => {
                format!("sum{} (rate({}[5m])) > 0", grouped(by), braced(metric, selector))
            }
            Self::Above { metric, selector, by, bound } => {
                format!("max{} ({}) > {bound}", grouped(by), braced(metric, selector))
            }
            Self::Absent { metric } => format!("absent({metric})"),
        }
    }
}

fn braced(metric: &str, selector: &str) -> String {
    if selector.is_empty() { metric.to_owned() } else { format!("{metric}{{{selector}}}") }
}

fn grouped(by: &str) -> String {
    if by.is_empty() { String::new() } else { format!(" by ({by})") }
}

/// The rules as a file for Prometheus' `rule_files`.
#[must_use]
pub fn prometheus() -> String {
    let mut file = String::from(
        "# Made by `annalist dashboards`, from the table of metrics. Name it under rule_files in prometheus.yml.\n\
         groups:\n  - name: annalist\n    rules:\n",
    );
    for alert in ALERTS {
        let severity = match alert.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
        };
        // In single quotes YAML knows one escape only: a quote is two.
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        file += &format!("      - alert: {}\n", alert.name);
        file += &format!("        expr: {}\n", quoted(&alert.condition.expression()));
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
    use ports::metrics::{Kind, METRICS, Metric};

    fn metric(name: &str) -> &'static Metric {
        METRICS
            .iter()
            .find(|metric| metric.name == name)
            .unwrap_or_else(|| panic!("there is no metric {name}"))
    }

    /// Names of labels in `a="b", c=~"d"`, or in `a, c`.
    fn labels(list: &str) -> Vec<&str> {
        list.split(", ")
            .map(|part| part.split(['=', '!']).next().unwrap())
            .filter(|l| !l.is_empty())
            .collect()
    }

    #[test]
    fn rules_name_only_metrics_and_labels_that_exist() {
        for alert in ALERTS {
            let (name, selector, by, kind) = match alert.condition {
                Condition::Grew { metric, selector, by, .. } | Condition::Grows { metric, selector, by } => {
                    (metric, selector, by, Some(Kind::Counter))
                }
                Condition::Above { metric, selector, by, .. } => (metric, selector, by, None),
                Condition::Absent { metric } => (metric, "", "", None),
            };
            let metric = metric(name);
            assert!(kind.is_none_or(|kind| kind == metric.kind), "{}", alert.name);
            let known: BTreeSet<&str> = metric.labels.split(", ").chain(["instance"]).collect();
            for label in labels(selector).into_iter().chain(labels(by)) {
                let of_quantile = label == "quantile" && metric.kind == Kind::Histogram;
                assert!(known.contains(label) || of_quantile, "{} has no {label}", metric.name);
            }
            // What a line says of a label is there to be said.
            for said in alert.summary.split("$labels.").skip(1) {
                let label = said.split(' ').next().unwrap();
                assert!(labels(by).contains(&label), "{}: {label}", alert.name);
            }
            // Values of outcomes that the table lists.
            if let Some((_, values)) = metric.help.split_once("outcome: ") {
                let values: BTreeSet<&str> =
                    values.trim_end_matches('.').split([',', ':']).map(str::trim).collect();
                let asked = selector.split_once("outcome").map_or("", |(_, asked)| asked);
                for value in asked.split(['"', '|']).filter(|value| {
                    value.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !value.is_empty()
                }) {
                    assert!(values.contains(value), "{} has no outcome {value}", metric.name);
                }
            }
        }
    }

    /// Reads what is written here of YAML: maps and lists by indentation, and plain or quoted scalars.
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
    fn the_file_holds_each_rule_whole() {
        let rules = read(&prometheus());
        assert_eq!(rules.len(), ALERTS.len());
        let mut names = BTreeSet::new();
        for (rule, alert) in rules.iter().zip(ALERTS) {
            let fields: Vec<&str> = rule.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                fields,
                ["alert", "expr", "for", "labels", "severity", "annotations", "summary", "description"]
            );
            assert_eq!(
                (rule[0].1.as_str(), rule[1].1.as_str()),
                (alert.name, alert.condition.expression().as_str())
            );
            assert!(names.insert(alert.name), "{} twice", alert.name);
            let (open, closed) =
                (rule[1].1.matches(['(', '{', '[']).count(), rule[1].1.matches([')', '}', ']']).count());
            assert_eq!(open, closed, "{}", rule[1].1);
        }
    }
}

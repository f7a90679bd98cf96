//! The Grafana dashboard, made from the table of metrics: a row per section, a panel per metric.
//! <https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/>

use serde_json::{Value, json};

use ports::metrics::{METRICS, Metric, MetricKind};

/// What every name begins with.
const PREFIX: &str = "annalist_";

/// Grafana 11's; later ones bring an older schema up to date when they open it.
const SCHEMA_VERSION: u32 = 39;

/// Of what belongs on a dashboard of its own uid: importing it again replaces it.
const UID: &str = "annalist";

/// Panels beside each other, in a grid of 24 columns.
const COLUMNS: usize = 3;
const WIDTH: usize = 24 / COLUMNS;
const HEIGHT: usize = 8;

/// What Prometheus' exporter computes of a distribution.
const QUANTILES: &str = "0.5|0.95|0.99";

/// The dashboard, to be imported as it is.
pub fn grafana() -> String {
    let dashboard = json!({
        "uid": UID,
        "title": "Annalist",
        "description": "Everything that /metrics has. Made by `annalist dashboards`; a change here is gone with the next import.",
        "tags": ["annalist"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "time": { "from": "now-6h", "to": "now" },
        "refresh": "30s",
        "timezone": "",
        "annotations": { "list": [] },
        "links": [],
        "templating": { "list": [data_source_variable(), instance_variable()] },
        "panels": panels(),
    });
    // Two spaces, and a newline at the end, as files have.
    format!("{dashboard:#}\n")
}

fn data_source_variable() -> Value {
    json!({ "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0,
        "current": {}, "options": [], "refresh": 1, "regex": "", "multi": false, "includeAll": false })
}

fn instance_variable() -> Value {
    let query = format!("label_values({{__name__=~\"{PREFIX}.+\"}}, instance)");
    json!({ "name": "instance", "label": "Instance", "type": "query", "datasource": data_source(), "hide": 0,
        "query": { "query": query, "refId": "instances" }, "definition": query, "refresh": 2, "sort": 1, "regex": "",
        "multi": true, "includeAll": true, "allValue": ".*",
        "current": { "text": ["All"], "value": ["$__all"] }, "options": [] })
}

fn data_source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// A row for each section of the table, with a panel for each of its metrics.
fn panels() -> Vec<Value> {
    let (mut panels, mut y) = (Vec::new(), 0);
    for metrics in METRICS.chunk_by(|before, after| before.section == after.section) {
        let row = json!({ "id": panels.len() + 1, "type": "row", "title": metrics[0].section, "collapsed": false,
            "panels": [], "gridPos": { "x": 0, "y": y, "w": 24, "h": 1 } });
        panels.push(row);
        y += 1;
        for (index, metric) in metrics.iter().enumerate() {
            let (x, y) = (index % COLUMNS * WIDTH, y + index / COLUMNS * HEIGHT);
            let id = panels.len() + 1;
            panels.push(panel(metric, id, &json!({ "x": x, "y": y, "w": WIDTH, "h": HEIGHT })));
        }
        y += metrics.len().div_ceil(COLUMNS) * HEIGHT;
    }
    panels
}

fn panel(metric: &Metric, id: usize, place: &Value) -> Value {
    let graph = json!({ "drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never" });
    json!({
        "id": id,
        "type": "timeseries",
        "title": title(metric),
        "description": format!("{} ({})", metric.help, metric.name),
        "datasource": data_source(),
        "gridPos": place,
        "targets": [{ "refId": "A", "datasource": data_source(), "expr": expression(metric),
            "legendFormat": legend(metric), "editorMode": "code", "range": true }],
        "fieldConfig": {
            "defaults": { "unit": unit(metric), "min": 0, "color": { "mode": "palette-classic" }, "custom": graph },
            "overrides": [],
        },
        "options": {
            "legend": { "showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": [] },
            "tooltip": { "mode": "multi", "sort": "desc" },
        },
    })
}

/// `annalist_queue_oldest_age_seconds` is `Queue oldest age seconds`.
fn title(metric: &Metric) -> String {
    let name = metric.name.trim_start_matches(PREFIX).trim_end_matches("_total").replace('_', " ");
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let title: String = first.into_iter().chain(letters).collect();
    title.replace("Aws ", "AWS ").replace("Web api ", "Web API ")
}

fn labels(metric: &Metric) -> impl Iterator<Item = &'static str> {
    metric.labels.split(", ").filter(|label| !label.is_empty())
}

/// What Grafana asks: a counter's growth by the second, a gauge as it is, and of a distribution its quantiles.
fn expression(metric: &Metric) -> String {
    let name = metric.name;
    let by =
        |more: &[&'static str]| labels(metric).chain(more.iter().copied()).collect::<Vec<_>>().join(", ");
    match metric.kind {
        MetricKind::Counter => {
            format!("sum by ({}) (rate({name}{{instance=~\"$instance\"}}[$__rate_interval]))", by(&[]))
        }
        // Every process of a fleet exports the same queues.
        MetricKind::Gauge if name.starts_with("annalist_queue_") => {
            format!("max by ({}) ({name}{{instance=~\"$instance\"}})", by(&[]))
        }
        MetricKind::Gauge => format!("sum by ({}) ({name}{{instance=~\"$instance\"}})", by(&[])),
        MetricKind::Histogram => {
            let selector = format!("{name}{{instance=~\"$instance\", quantile=~\"{QUANTILES}\"}}");
            format!("max by ({}) ({selector})", by(&["quantile"]))
        }
    }
}

fn legend(metric: &Metric) -> String {
    let quantile = match metric.kind {
        MetricKind::Histogram => Some("quantile"),
        MetricKind::Counter | MetricKind::Gauge => None,
    };
    let parts: Vec<String> = labels(metric).chain(quantile).map(|label| format!("{{{{{label}}}}}")).collect();
    if parts.is_empty() { title(metric) } else { parts.join(" ") }
}

/// Grafana's name of the unit, which the end of a metric's name tells.
fn unit(metric: &Metric) -> &'static str {
    let name = metric.name.trim_end_matches("_total");
    let is_rate = metric.kind == MetricKind::Counter;
    if name.ends_with("_seconds") {
        "s"
    } else if name.ends_with("_bytes") {
        if is_rate { "Bps" } else { "bytes" }
    } else if is_rate {
        "cps"
    } else {
        "short"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn read() -> Value {
        serde_json::from_str(&grafana()).unwrap()
    }

    #[test]
    fn every_metric_has_one_panel_that_asks_for_it_by_its_labels() {
        let dashboard = read();
        let panels = dashboard["panels"].as_array().unwrap();
        let graphs: Vec<&Value> = panels.iter().filter(|panel| panel["type"] == "timeseries").collect();
        assert_eq!(graphs.len(), METRICS.len());
        for metric in METRICS {
            let shows = |panel: &&&Value| {
                let asked = panel["targets"][0]["expr"].as_str().unwrap();
                asked.contains(&format!("{}{{", metric.name))
            };
            let found: Vec<_> = graphs.iter().filter(shows).collect();
            assert_eq!(found.len(), 1, "{}", metric.name);
            let expression = found[0]["targets"][0]["expr"].as_str().unwrap();
            assert!(labels(metric).all(|label| expression.contains(label)), "{expression}");
            assert_eq!(expression.contains("rate("), metric.kind == MetricKind::Counter, "{expression}");
            assert_eq!(expression.contains("quantile"), metric.kind == MetricKind::Histogram, "{expression}");
            assert!(found[0]["description"].as_str().unwrap().contains(metric.help));
        }
    }

    #[test]
    fn panels_have_ids_of_their_own_and_none_covers_another() {
        let dashboard = read();
        let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()));
            let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24);
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(cells.insert((x, y)), "{panel}");
                }
            }
        }
    }

    #[test]
    fn units_and_titles_come_from_the_name() {
        let of =
            |name: &'static str, kind| Metric { name, kind, labels: "", help: "", section: "", alerts: &[] };
        for (name, kind, expected) in [
            ("annalist_ingest_seconds", MetricKind::Histogram, ("s", "Ingest seconds")),
            ("annalist_file_bytes_total", MetricKind::Counter, ("Bps", "File bytes")),
            ("annalist_queue_waiting", MetricKind::Gauge, ("short", "Queue waiting")),
            ("annalist_queue_oldest_age_seconds", MetricKind::Gauge, ("s", "Queue oldest age seconds")),
            ("annalist_files_total", MetricKind::Counter, ("cps", "Files")),
            ("annalist_aws_requests_total", MetricKind::Counter, ("cps", "AWS requests")),
        ] {
            let metric = of(name, kind);
            assert_eq!((unit(&metric), title(&metric).as_str()), expected);
        }
    }
}

//! `annalist dashboards`: writes a Grafana dashboard and Prometheus alerts, generated from the table of
//! metrics.

use std::io::Write;
use std::path::PathBuf;

use process::telemetry::{alerts, dashboard};

use super::target;

/// The name of a file, and the function that generates its content.
type GeneratedFile = (&'static str, fn() -> String);

const FILES: [GeneratedFile; 2] = [
    ("grafana-dashboard.json", dashboard::grafana_dashboard),
    ("prometheus-alerts.yaml", alerts::prometheus_rules),
];

/// `annalist dashboards`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DashboardsArgs {
    /// Write the files into this folder
    #[arg(long, value_name = "DIR", value_parser = target::path())]
    pub(crate) out: PathBuf,
}

pub(crate) fn write(args: &DashboardsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    for (name, generate) in FILES {
        let path = target::write_file(&args.out, name, generate().as_bytes())?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_writes_a_json_dashboard_and_alerts() {
        let folder = tempfile::tempdir().unwrap();
        let args = DashboardsArgs { out: folder.path().join("new") };
        let mut out = Vec::new();
        write(&args, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), FILES.len());
        for (name, generate) in FILES {
            assert_eq!(std::fs::read_to_string(args.out.join(name)).unwrap(), generate(), "{name}");
        }
        serde_json::from_str::<serde_json::Value>(&dashboard::grafana_dashboard()).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_a_one_line_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = write(&DashboardsArgs { out: file.path().join("x") }, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("cannot make the folder "), "{error:#}");
    }
}

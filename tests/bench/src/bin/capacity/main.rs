//! How many workspaces an installation on AWS holds, what limits it and what it costs: arithmetic over the
//! counts of the bill and AWS's quotas. docs/capacity.md is its output.

mod model;
mod page;
mod quotas;

use std::io::Write;

use clap::Parser;

/// How many workspaces an installation on AWS holds, what limits it and what it costs
#[derive(Debug, Parser)]
#[command(name = "capacity")]
struct CapacityArgs {
    /// Numbers of workspaces
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "10,1000,100000",
        value_parser = clap::value_parser!(u64).range(1..=10_000_000)
    )]
    workspaces: Vec<u64>,
    /// AWS region
    #[arg(long, value_name = "REGION", default_value = "us-east-1", value_parser = region)]
    region: String,
    /// Print a list of objects, which is the default
    #[arg(long)]
    json: bool,
    /// Print docs/capacity.md
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

fn region(name: &str) -> Result<String, String> {
    if quotas::is_region(name) {
        Ok(name.to_owned())
    } else {
        Err("this is no name of a region, such as eu-central-1".to_owned())
    }
}

fn main() -> anyhow::Result<()> {
    let args = CapacityArgs::parse();
    let plans: Vec<_> = args.workspaces.iter().map(|number| model::plan(*number, &args.region)).collect();
    let mut out = std::io::stdout().lock();
    if args.markdown {
        out.write_all(page::markdown(&plans).as_bytes())?;
    } else {
        serde_json::to_writer_pretty(&mut out, &plans)?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn no_workspace_and_no_region_are_usage_errors() {
        for wrong in [
            ["--workspaces", "0"],
            ["--workspaces", "10,0"],
            ["--region", "Frankfurt"],
            ["--region", "eu-central"],
            ["--region", "eu--1"],
            ["--region", ""],
        ] {
            let refused = CapacityArgs::try_parse_from(["capacity"].iter().chain(&wrong)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ValueValidation, "{wrong:?}: {refused}");
            assert_eq!(refused.exit_code(), 2);
        }
        for region in ["eu-central-1", "us-gov-west-1", "ap-southeast-3"] {
            CapacityArgs::try_parse_from(["capacity", "--region", region]).unwrap();
        }
    }
}

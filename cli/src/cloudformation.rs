//! `annalist cloudformation`: prints a template with the AWS resources and with every part as a Lambda
//! function, or workers as containers.

#[cfg(feature = "aws")]
use std::io::Write;

#[cfg(feature = "aws")]
use aws_resources::{Rollout, TemplateOptions, WorkerHost};
#[cfg(feature = "aws")]
use process::config::aws::AwsOnlyArgs;

/// `annalist cloudformation`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CloudformationArgs {
    #[cfg(feature = "aws")]
    #[command(flatten)]
    pub(crate) names: AwsOnlyArgs,
    /// How a new version of a function takes over: at once, or a tenth every three minutes, back at an alarm
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) deploy: DeployChoice,
    /// Where workers run: as functions, or as containers on Fargate
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) workers: WorkersChoice,
}

/// How a new version of a function takes over.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum DeployChoice {
    #[default]
    AllAtOnce,
    Linear,
}

/// Where workers run.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum WorkersChoice {
    #[default]
    Lambda,
    Fargate,
}

/// Prints the template. Sends no request to AWS.
#[cfg(feature = "aws")]
pub(crate) fn print(args: &CloudformationArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let options = TemplateOptions {
        rollout: match args.deploy {
            DeployChoice::AllAtOnce => Rollout::AllAtOnce,
            DeployChoice::Linear => Rollout::Linear,
        },
        workers: match args.workers {
            WorkersChoice::Lambda => WorkerHost::Lambda,
            WorkersChoice::Fargate => WorkerHost::Fargate,
        },
        release: crate::VERSION,
    };
    out.write_all(aws_resources::template_json(&args.names.aws.names()?, options).as_bytes())?;
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use super::*;

    #[test]
    fn the_template_requires_a_bucket_name_and_contains_it() {
        let mut out = Vec::new();
        let mut args = CloudformationArgs {
            names: AwsOnlyArgs::default(),
            deploy: DeployChoice::default(),
            workers: WorkersChoice::default(),
        };
        let error = print(&args, &mut out).unwrap_err();
        assert!(error.to_string().contains("ANNALIST_BUCKET") && out.is_empty(), "{error}");
        args.names.aws.bucket = Some("acme-slack-archive".to_owned());
        print(&args, &mut out).unwrap();
        let template: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(template["Resources"]["Bucket"]["Properties"]["BucketName"], "acme-slack-archive");
    }
}

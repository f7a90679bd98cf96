//! `annalist cloudformation`: prints a template with the AWS resources and with every part as a Lambda
//! function.

#[cfg(feature = "aws")]
use std::io::Write;

#[cfg(feature = "aws")]
use process::config::aws::AwsOnlyArgs;

/// `annalist cloudformation`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CloudformationArgs {
    #[cfg(feature = "aws")]
    #[command(flatten)]
    pub(crate) names: AwsOnlyArgs,
}

/// Prints the template. Sends no request to AWS.
#[cfg(feature = "aws")]
pub(crate) fn print(args: &CloudformationArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    out.write_all(aws_resources::template_json(&args.names.aws.names()?).as_bytes())?;
    Ok(())
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use super::*;

    #[test]
    fn the_template_requires_a_bucket_name_and_contains_it() {
        let mut out = Vec::new();
        let mut args = CloudformationArgs { names: AwsOnlyArgs::default() };
        let error = print(&args, &mut out).unwrap_err();
        assert!(error.to_string().contains("ANNALIST_BUCKET") && out.is_empty(), "{error}");
        args.names.aws.bucket = Some("acme-slack-archive".to_owned());
        print(&args, &mut out).unwrap();
        let template: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(template["Resources"]["Bucket"]["Properties"]["BucketName"], "acme-slack-archive");
    }
}

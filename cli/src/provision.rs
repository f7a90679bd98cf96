//! `annalist provision`: creates what is missing of the queues, tables and bucket that `--backend aws` needs.

#[cfg(feature = "aws")]
use std::io::Write;

#[cfg(feature = "aws")]
use aws::Aws;
#[cfg(feature = "aws")]
use aws::provision::{Parts, ProvisionStep, ResourceChange, provision};
#[cfg(feature = "aws")]
use process::config::aws::AwsOnlyArgs;

/// `annalist provision`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProvisionArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[cfg(feature = "aws")]
    #[command(flatten)]
    pub(crate) names: AwsOnlyArgs,
}

/// Replaces the heading of the arguments for names, which mentions `--backend aws`: this command has no such
/// flag.
pub(crate) fn under_its_heading(arg: clap::Arg) -> clap::Arg {
    let is_name = !["dry_run", "settings"].contains(&arg.get_id().as_str());
    if is_name { arg.help_heading("Names") } else { arg }
}

/// Creates the missing resources, and prints each step as soon as it is done.
#[cfg(feature = "aws")]
pub(crate) async fn run(args: &ProvisionArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let aws = Aws::connect(args.names.aws.names()?).await?;
    let (mut summary, mut printed) = (ProvisionSummary::default(), Ok(()));
    let mut done = |step: &ProvisionStep| {
        summary.count(step);
        // A step is done even if it cannot be printed.
        if printed.is_ok() {
            printed = writeln!(out, "{}", line(step, args.dry_run)).and_then(|()| out.flush());
        }
    };
    provision(&aws, Parts::ALL, args.dry_run, &mut done).await?;
    printed?;
    writeln!(out, "{}", summary.line(aws.region(), args.dry_run))?;
    Ok(())
}

/// `created       queue annalist-events.fifo`.
#[cfg(feature = "aws")]
fn line(step: &ProvisionStep, dry_run: bool) -> String {
    let done = match (&step.change, dry_run) {
        (ResourceChange::Create, false) => "created",
        (ResourceChange::Create, true) => "would create",
        (ResourceChange::Differs(_), _) => "differs",
        (ResourceChange::Keep, _) => "unchanged",
    };
    let width = if dry_run { "would create".len() } else { "unchanged".len() };
    format!("{done:width$} {step}")
}

/// The number of resources by the kind of change.
#[cfg(feature = "aws")]
#[derive(Debug, Default)]
struct ProvisionSummary {
    created: usize,
    kept: usize,
    differing: usize,
}

#[cfg(feature = "aws")]
impl ProvisionSummary {
    fn count(&mut self, step: &ProvisionStep) {
        match step.change {
            ResourceChange::Create => self.created += 1,
            ResourceChange::Keep => self.kept += 1,
            ResourceChange::Differs(_) => self.differing += 1,
        }
    }

    fn line(&self, region: &str, dry_run: bool) -> String {
        let Self { created, kept, differing } = self;
        let all = created + kept + differing;
        let (created_how, end) =
            if dry_run { ("to create", "; nothing was changed") } else { ("created", "") };
        let differing = match differing {
            0 => String::new(),
            _ => format!(
                ", {differing} with other settings, which stay as they are: `annalist cloudformation` prints the \
                 expected ones"
            ),
        };
        format!("{all} resources in {region}: {created} {created_how}, {kept} unchanged{differing}{end}")
    }
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use super::*;

    fn step(change: ResourceChange) -> ProvisionStep {
        ProvisionStep { resource: "queue annalist-events.fifo".to_owned(), change }
    }

    #[test]
    fn each_step_is_an_aligned_line() {
        let settings =
            || ResourceChange::Differs(vec!["DelaySeconds".to_owned(), "VisibilityTimeout".to_owned()]);
        for (change, dry_run, expected) in [
            (ResourceChange::Create, false, "created   queue annalist-events.fifo"),
            (settings(), false, "differs   queue annalist-events.fifo (DelaySeconds, VisibilityTimeout)"),
            (ResourceChange::Keep, false, "unchanged queue annalist-events.fifo"),
            (ResourceChange::Create, true, "would create queue annalist-events.fifo"),
            (settings(), true, "differs      queue annalist-events.fifo (DelaySeconds, VisibilityTimeout)"),
            (ResourceChange::Keep, true, "unchanged    queue annalist-events.fifo"),
        ] {
            assert_eq!(line(&step(change), dry_run), expected);
        }
    }

    #[test]
    fn the_last_line_has_counts_and_says_what_to_do_about_other_settings() {
        let mut summary = ProvisionSummary::default();
        for change in [ResourceChange::Create, ResourceChange::Create, ResourceChange::Keep] {
            summary.count(&step(change));
        }
        assert_eq!(
            summary.line("eu-central-1", false),
            "3 resources in eu-central-1: 2 created, 1 unchanged"
        );
        assert!(summary.line("eu-central-1", true).ends_with("1 unchanged; nothing was changed"));
        summary.count(&step(ResourceChange::Differs(Vec::new())));
        let line = summary.line("eu-central-1", false);
        assert!(line.starts_with("4 resources") && line.contains("1 with other settings"), "{line}");
    }
}

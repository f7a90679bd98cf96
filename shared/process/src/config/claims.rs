//! How long it is remembered that something was done, and by whom it was.

use std::ops::RangeInclusive;
use std::time::Duration;

use ports::claims::DEFAULT_TTL;
use ports::queue::topology::RETENTION;

/// For work that is claimed before it is done.
#[derive(Debug, Clone, clap::Args)]
pub struct ClaimArgs {
    /// Seconds for which it is remembered that a file was fetched
    #[arg(long, env = "ANNALIST_CLAIM_TTL_S", value_name = "SECONDS", default_value_t = DEFAULT_TTL.as_secs(),
          value_parser = clap::value_parser!(u64).range(TTL_S), hide_short_help = true)]
    pub claim_ttl_s: u64,
}

/// No less than a claim in progress is renewed in, and no more than its job can be on the queue.
const TTL_S: RangeInclusive<u64> = 60..=RETENTION.as_secs();

impl Default for ClaimArgs {
    fn default() -> Self {
        Self { claim_ttl_s: DEFAULT_TTL.as_secs() }
    }
}

impl ClaimArgs {
    /// The same as a duration.
    pub fn ttl(&self) -> Duration {
        Duration::from_secs(self.claim_ttl_s)
    }
}

/// Lambda's name for the log of one instance of a function, which no other instance has.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime>
const LOG_STREAM: &str = "AWS_LAMBDA_LOG_STREAM_NAME";

/// What tells this life of this process from every other: on Lambda the name of its log, else its process id; and a
/// number, since both come again.
pub fn instance() -> String {
    let name = super::text(LOG_STREAM).unwrap_or_else(|| format!("process-{}", std::process::id()));
    format!("{name}/{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ClaimCommand {
        #[command(flatten)]
        claims: ClaimArgs,
    }

    #[test]
    fn claims_are_remembered_for_six_hours_or_up_to_what_the_queue_keeps() {
        let parse = |args: &[&str]| ClaimCommand::try_parse_from([&["annalist"], args].concat());
        let ttl = |args: &[&str]| parse(args).map(|command| command.claims.ttl()).ok();
        assert_eq!(ttl(&[]), Some(Duration::from_secs(21_600)));
        assert_eq!(ttl(&["--claim-ttl-s", "1209600"]), Some(RETENTION));
        for refused in ["59", "1209601", "6h", "-1"] {
            assert!(parse(&["--claim-ttl-s", refused]).is_err(), "{refused}");
        }
    }

    #[test]
    fn no_two_lives_are_one() {
        assert_ne!(instance(), instance());
    }
}

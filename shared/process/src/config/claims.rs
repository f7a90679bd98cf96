//! The settings of claims, and the id of this process instance.

use std::ops::RangeInclusive;
use std::time::Duration;

use ports::claims::DEFAULT_TTL;
use ports::queue::topology::RETENTION;

/// The settings of claims.
#[derive(Debug, Clone, clap::Args)]
pub struct ClaimArgs {
    /// Seconds to remember that a file was fetched
    #[arg(long, env = "ANNALIST_CLAIM_TTL_S", value_name = "SECONDS", default_value_t = DEFAULT_TTL.as_secs(),
          value_parser = clap::value_parser!(u64).range(TTL_S), hide_short_help = true)]
    pub claim_ttl_s: u64,
}

/// At least the renewal interval of a claim in progress, and at most as long as its job can be on the queue.
const TTL_S: RangeInclusive<u64> = 60..=RETENTION.as_secs();

impl Default for ClaimArgs {
    fn default() -> Self {
        Self { claim_ttl_s: DEFAULT_TTL.as_secs() }
    }
}

impl ClaimArgs {
    /// The TTL as a duration.
    pub fn ttl(&self) -> Duration {
        Duration::from_secs(self.claim_ttl_s)
    }
}

/// The log stream of one instance of a function; Lambda gives each instance its own.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime>
const LOG_STREAM: &str = "AWS_LAMBDA_LOG_STREAM_NAME";

/// A unique id of this process: on Lambda the name of its log stream, otherwise its process id; plus a random
/// number, since both can repeat.
pub fn instance_id() -> String {
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
    fn the_ttl_of_claims_is_six_hours_or_up_to_the_queue_retention() {
        let parse = |args: &[&str]| ClaimCommand::try_parse_from([&["annalist"], args].concat());
        let ttl = |args: &[&str]| parse(args).map(|command| command.claims.ttl()).ok();
        assert_eq!(ttl(&[]), Some(Duration::from_secs(21_600)));
        assert_eq!(ttl(&["--claim-ttl-s", "1209600"]), Some(RETENTION));
        for refused in ["59", "1209601", "6h", "-1"] {
            assert!(parse(&["--claim-ttl-s", refused]).is_err(), "{refused}");
        }
    }

    #[test]
    fn each_instance_id_is_unique() {
        assert_ne!(instance_id(), instance_id());
    }
}

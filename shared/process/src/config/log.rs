//! What is logged.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::{ConfigError, text};

/// What to log, where nothing else is said.
///
/// # Errors
/// [`ConfigError`] if `ANNALIST_LOG` cannot be used.
pub fn log_filter() -> Result<EnvFilter, ConfigError> {
    log_filter_or("info")
}

/// What to log: `ANNALIST_LOG` in the syntax of `tracing` (`info`, `workers=debug`, …), or else this.
///
/// # Errors
/// As [`log_filter`].
pub fn log_filter_or(default: &str) -> Result<EnvFilter, ConfigError> {
    read(&text("ANNALIST_LOG").unwrap_or_else(|| default.to_owned()))
}

fn read(filter: &str) -> Result<EnvFilter, ConfigError> {
    // A word that is no level would be the name of a module: all others would log nothing.
    let is_level = |part: &str| !part.trim().is_empty() && part.trim().parse::<LevelFilter>().is_ok();
    if !filter.split(',').all(|part| part.contains('=') || is_level(part)) {
        return Err(ConfigError::Log);
    }
    EnvFilter::try_new(filter).map_err(|_| ConfigError::Log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_levels_and_may_name_modules_with_theirs() {
        for filter in ["info", "debug", "TRACE", "off", "warn,workers=debug", "workers::runtime=trace, info"]
        {
            assert!(read(filter).is_ok(), "{filter}");
        }
        for filter in ["loud", "info,loud", "workers", "workers=loud", "info debug", ","] {
            assert_eq!(
                read(filter).unwrap_err().to_string(),
                "ANNALIST_LOG cannot be used: it is error, warn, info, debug, trace or off, or names the level of \
                 single modules, such as info,workers=debug",
                "{filter}"
            );
        }
    }
}

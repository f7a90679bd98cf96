//! The log filter.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::{ConfigError, text};

/// The log filter with the default level `info`.
///
/// # Errors
/// [`ConfigError`] if `ANNALIST_LOG` cannot be used.
pub fn log_filter() -> Result<EnvFilter, ConfigError> {
    log_filter_or("info")
}

/// The log filter: `ANNALIST_LOG` in the syntax of `tracing` (`info`, `workers=debug`, …), or `default` if it
/// is unset.
///
/// # Errors
/// As [`log_filter`].
pub fn log_filter_or(default: &str) -> Result<EnvFilter, ConfigError> {
    read(&text("ANNALIST_LOG").unwrap_or_else(|| default.to_owned()))
}

fn read(filter: &str) -> Result<EnvFilter, ConfigError> {
    // `EnvFilter` treats a word that is not a level as a module name, and all other modules would log
    // nothing.
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
    fn a_filter_contains_levels_or_modules_with_levels() {
        for filter in ["info", "debug", "TRACE", "off", "warn,workers=debug", "workers::runtime=trace, info"]
        {
            assert!(read(filter).is_ok(), "{filter}");
        }
        for filter in ["loud", "info,loud", "workers", "workers=loud", "info debug", ","] {
            assert_eq!(
                read(filter).unwrap_err().to_string(),
                "ANNALIST_LOG cannot be used: it must be error, warn, info, debug, trace or off, or set the level of \
                 single modules, such as info,workers=debug",
                "{filter}"
            );
        }
    }
}

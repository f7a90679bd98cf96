//! The time zone of displayed times.

use jiff::tz::TimeZone;

/// The choice of a time zone.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ZoneArgs {
    /// Time zone of the times in text, such as Europe/Berlin [default: TZ, then the system's]
    #[arg(long, env = "ANNALIST_TZ", value_name = "ZONE", value_parser = NamedZone::parse)]
    pub tz: Option<NamedZone>,
}

impl ZoneArgs {
    /// The zone, or otherwise that of the system.
    #[must_use]
    pub fn time_zone(&self) -> TimeZone {
        self.tz.as_ref().map_or_else(system_zone, |tz| tz.zone.clone())
    }
}

/// The zone from `TZ`, or otherwise of the machine; UTC if neither is set.
#[must_use]
pub fn system_zone() -> TimeZone {
    TimeZone::try_system().ok().filter(|zone| !zone.is_unknown()).unwrap_or(TimeZone::UTC)
}

/// A time zone with its name.
#[derive(Debug, Clone)]
pub struct NamedZone {
    /// Its name in the time zone database, or its rule.
    pub name: String,
    /// The zone.
    pub zone: TimeZone,
}

impl NamedZone {
    /// A zone by its name in the time zone database, or by its rule, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    ///
    /// # Errors
    /// A text that shows the expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "use a time zone such as Europe/Berlin, Etc/GMT-2 (two hours ahead) or UTC";
        // As a rule, `UTC+2` is two hours behind, but people mean two hours ahead.
        let is_ambiguous = ["UTC", "GMT"].iter().any(|name| text.to_ascii_uppercase().starts_with(name));
        let zone = match TimeZone::get(text) {
            Ok(zone) => zone,
            Err(_) if is_ambiguous => return Err(EXPECTED),
            Err(_) => TimeZone::posix(text).map_err(|_| EXPECTED)?,
        };
        Ok(Self { name: zone.iana_name().unwrap_or(text).to_owned(), zone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_a_name_or_a_rule_and_an_offset_from_utc_is_refused() {
        let name = |text| NamedZone::parse(text).map(|zone| zone.name);
        assert_eq!(name("europe/berlin").as_deref(), Ok("Europe/Berlin"));
        assert_eq!(name("Etc/GMT-2").as_deref(), Ok("Etc/GMT-2"));
        let rule = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(name(rule).as_deref(), Ok(rule));
        for refused in ["UTC+2", "utc-2", "GMT+9", "Nowhere/City", ""] {
            assert!(name(refused).is_err(), "{refused:?}");
        }
    }
}

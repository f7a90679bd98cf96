//! The time zone of displayed times.

use jiff::tz::TimeZone;

/// The choice of a time zone.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ZoneArgs {
    /// Time zone of the times in text, such as Europe/Berlin [default: TZ, then the system's]
    #[arg(long, env = "ANNALIST_TZ", value_name = "ZONE", value_parser = NamedZone::parse)]
    pub tz: Option<NamedZone>,
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
        let zone = TimeZone::get(text).or_else(|_| TimeZone::posix(text));
        let zone = zone.map_err(|_| "use a time zone such as Europe/Berlin or UTC")?;
        Ok(Self { name: zone.iana_name().unwrap_or(text).to_owned(), zone })
    }
}

//! Which part of Slack's history is read without a request.

/// The history that is read from Slack automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackfillMode {
    /// Everything that Slack still shows, and events missed in gaps.
    All,
    /// Events missed in gaps, once the gaps have ended.
    Gaps,
    /// Nothing.
    #[default]
    Off,
}

impl BackfillMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::All, Self::Gaps, Self::Off];

    /// The mode as the setting names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Gaps => "gaps",
            Self::Off => "off",
        }
    }
}

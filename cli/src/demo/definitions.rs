//! The people, channels, files and emoji of the made-up workspace. The messages are in `messages`.

/// A channel, its messages and what happens to it during the week.
pub(super) struct DemoChannel {
    pub(super) id: &'static str,
    /// Its name when the archive began, if the channel existed then.
    pub(super) initial_name: Option<&'static str>,
    /// What happens to the channel: each step with the number of messages before it.
    pub(super) steps: &'static [(usize, ChannelStep)],
    pub(super) messages: &'static [&'static str],
}

impl DemoChannel {
    /// Returns its first id, then the ids that replace it.
    pub(super) fn ids(&self) -> impl Iterator<Item = &'static str> {
        let later = self
            .steps
            .iter()
            .filter_map(|(_, step)| if let ChannelStep::IdChanged(id) = step { Some(*id) } else { None });
        std::iter::once(self.id).chain(later)
    }
}

/// Something that happens to a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelStep {
    Created(&'static str),
    Renamed(&'static str),
    /// Renamed without an event, because the machine was off.
    RenamedUnseen(&'static str),
    Topic(&'static str),
    Purpose(&'static str),
    Archived,
    /// Archived before the archive began.
    WasArchived,
    Unarchived,
    MadePrivate,
    Deleted,
    /// The channel continues under this id.
    IdChanged(&'static str),
}

/// A person.
pub(super) struct DemoPerson {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) real_name: &'static str,
    /// The bytes of their picture.
    pub(super) avatar: &'static [u8],
}

impl DemoPerson {
    const fn new(
        id: &'static str,
        name: &'static str,
        real_name: &'static str,
        avatar: &'static [u8],
    ) -> Self {
        Self { id, name, real_name, avatar }
    }
}

/// The people. The last one joins during the week.
pub(super) const PEOPLE: [DemoPerson; 6] = [
    DemoPerson::new("U0ANA", "ana", "Ana Duarte", include_bytes!("files/avatar-ana.png")),
    DemoPerson::new("U0BEN", "ben", "Ben Okafor", include_bytes!("files/avatar-ben.png")),
    DemoPerson::new("U0CHO", "cho", "Cho Min-ji", include_bytes!("files/avatar-cho.png")),
    DemoPerson::new("U0DEV", "devi", "Devi Raman", include_bytes!("files/avatar-devi.png")),
    DemoPerson::new("U0EVE", "eve", "Eve Lindqvist", include_bytes!("files/avatar-eve.png")),
    DemoPerson::new("U0FIN", "finn", "Finn Weber", include_bytes!("files/avatar-finn.png")),
];

/// Custom emoji: name and picture. [`EMOJI_ALIAS`] is an alias of the first one.
pub(super) const EMOJI: [(&str, &[u8]); 2] = [
    ("shipped", include_bytes!("files/emoji-shipped.png")),
    ("thirsty-plant", include_bytes!("files/emoji-thirsty-plant.png")),
];

/// The alias of the first custom emoji.
pub(super) const EMOJI_ALIAS: &str = "sent";

/// A shared file.
pub(super) struct DemoFile {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) mimetype: &'static str,
    pub(super) location: FileLocation,
}

/// The location of a file's bytes.
#[derive(Clone, Copy)]
pub(super) enum FileLocation {
    /// On Slack.
    Hosted(&'static [u8]),
    /// On Slack, in another workspace: the message only refers to `files.info`.
    AskFirst(&'static [u8]),
    /// On Slack, which returns its login page instead of the bytes.
    BehindLogin,
    /// Outside Slack, at this address.
    Elsewhere(&'static str),
    /// Hidden by Slack's limit for old files.
    Hidden,
}

const PLAN: DemoFile = DemoFile {
    id: "F0PLAN",
    name: "offsite-plan.txt",
    mimetype: "text/plain",
    location: FileLocation::Hosted(include_bytes!("files/offsite-plan.txt")),
};
const SURVEY: DemoFile = DemoFile {
    id: "F0SURVEY",
    name: "survey.csv",
    mimetype: "text/csv",
    location: FileLocation::Hosted(include_bytes!("files/survey.csv")),
};
const LOGO: DemoFile = DemoFile {
    id: "F0LOGO",
    name: "logo.png",
    mimetype: "image/png",
    location: FileLocation::Hosted(include_bytes!("files/logo.png")),
};
const PALETTE: DemoFile = DemoFile {
    id: "F0PALETTE",
    name: "palette.html",
    mimetype: "text/html",
    location: FileLocation::Hosted(include_bytes!("files/palette.html")),
};
const PARTY: DemoFile = DemoFile {
    id: DELETED_FILE,
    name: "summer-party.png",
    mimetype: "image/png",
    location: FileLocation::Hosted(include_bytes!("files/summer-party.png")),
};
const BADGES: DemoFile = DemoFile {
    id: "F0BADGES",
    name: "badge-printer.txt",
    mimetype: "text/plain",
    location: FileLocation::AskFirst(include_bytes!("files/badge-printer.txt")),
};
const SLIDES: DemoFile = DemoFile {
    id: "F0SLIDES",
    name: "Review, November",
    mimetype: "application/vnd.google-apps.presentation",
    location: FileLocation::Elsewhere("https://docs.example.com/presentation/review-november"),
};
const LOG: DemoFile =
    DemoFile { id: "F0LOG", name: "export.log", mimetype: "text/plain", location: FileLocation::BehindLogin };
const MACHINE: DemoFile =
    DemoFile { id: "F0OLD", name: "machine.jpg", mimetype: "image/jpeg", location: FileLocation::Hidden };

/// Shared files: the channel's id, the text of the message, and the file.
pub(super) const SHARES: [(&str, &str, DemoFile); 10] = [
    ("C0OFFSITE", "The plan for the two days", PLAN),
    ("C0GENERAL", "For everybody who asked: the plan of the offsite", PLAN),
    ("C0GENERAL", "The results of the survey", SURVEY),
    ("C0GENERAL", "The slides of the last review", SLIDES),
    ("C0DESIGN", "The logo, final final", LOGO),
    ("C0DESIGN", "The greys side by side", PALETTE),
    ("C0HELP", "From the manufacturer, via the print shop", BADGES),
    ("C0RELEASE", "The log of the slow export", LOG),
    ("C0RANDOM", "The first vending machine, 2019", MACHINE),
    ("C0RANDOM", "The summer party", PARTY),
];

/// The id of the file that is deleted in Slack at the end of the week.
pub(super) const DELETED_FILE: &str = "F0PARTY";

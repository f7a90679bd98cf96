//! Pages: functions from what was read to HTML. They read nothing, and know neither who asks nor how.
//!
//! * [`layout`]: what stands around each page; [`sidebar`]: the channels beside it.
//! * [`timeline`], [`thread`], [`versions`]: messages, each of them a [`message`], with its [`words`] and its [`attached`] files.
//! * [`search`], [`files`], [`figures`] with their [`plots`], [`coverage`]: the other pages; [`login`] and [`notice`]: what is shown
//!   instead of one; [`site`]: those of a site that is files.

pub mod attached;
pub mod coverage;
pub mod figures;
pub mod files;
pub mod layout;
pub mod login;
pub mod message;
pub mod notice;
pub mod plots;
pub mod search;
pub mod sidebar;
pub mod site;
pub mod thread;
pub mod timeline;
pub mod versions;
pub mod words;

use jiff::tz::TimeZone;
use reader::joined::ChannelOfTeam;
use reader::names::DisplayNames;

use crate::gather::pictures::PictureBook;
use crate::links::LinkScheme;

/// How much of a name is shown. Slack's end at 80 characters; one from outside may not.
pub const MAX_NAME_CHARS: usize = 80;

/// What the messages of a page are shown with.
pub struct PageContext<'a> {
    /// Where links lead.
    pub links: &'a dyn LinkScheme,
    /// What people and channels are called.
    pub names: &'a DisplayNames<'a>,
    /// Pictures of people, and custom emoji.
    pub pictures: &'a PictureBook,
    /// In which zone times are.
    pub zone: &'a TimeZone,
    /// The channel whose messages they are.
    pub place: &'a ChannelOfTeam,
}

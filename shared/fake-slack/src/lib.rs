//! A fake Slack without a socket or a clock: the state of workspaces, and the answers of the Web API.
//!
//! [`SlackState::answer`] is a function of the state, a call and the time. The caller (tests, simulation,
//! bench, demo) provides the transport, such as a socket or memory, and injects transport faults.
//!
//! * [`SlackState`] records the calls, returns scripted answers and counts calls against limits.
//! * [`FakeWorkspace`] is the workspace behind one token: channels, people, bots, emoji, files, and settings
//!   of history.
//! * [`ChannelHistory`] has the messages of a channel, from events or set by a test.
//! * [`errors`] lists the codes with which Slack refuses calls.
//! * [`event`] creates the events that announce them, [`shapes`] every kind of content of a message.

mod answer;
mod conversations;
mod directory;
pub mod errors;
pub mod event;
mod history;
mod limits;
mod paging;
mod posting;
pub mod shapes;
mod span;
mod state;
mod volatile;
mod workspace;

pub use answer::{SlackAnswer, refusal};
pub use history::ChannelHistory;
pub use state::{Call, SlackState};
pub use workspace::{FakeWorkspace, bookmark, channel, person, user_group};

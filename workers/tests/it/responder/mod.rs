//! Questions and answers: who is answered, what is posted, and that it is posted once.

mod asking;
mod context;
mod costs;
mod crashes;
mod fixture;
mod posting;
#[cfg(feature = "embedded")]
mod searching;
mod withdrawn;

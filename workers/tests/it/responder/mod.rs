//! Tests of the responder and the poster: who is answered, what is posted, and that it is posted once.

mod context;
mod costs;
mod crashes;
mod fixture;
mod posting;
mod questions;
mod withdrawn;

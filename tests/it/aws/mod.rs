//! Everything that runs on AWS's side of the ports, on whatever stack the harness finds.

mod archive;
mod changes;
mod claims;
mod cloudformation;
mod commands;
mod convergence;
mod counts;
mod crash;
mod doctor;
mod erase;
mod existence;
mod export;
mod faults;
mod figures;
mod files;
mod fleet;
mod history;
mod idle;
mod localstack;
mod permissions;
mod provision;
mod questions;
mod queue;
mod search;
mod setup;
mod view;

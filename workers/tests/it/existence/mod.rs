//! Tests of the existence check: the entities in a correctly signed event must exist.

mod caches;
mod exceptions;
mod fixture;
mod floods;
mod forged;
mod moved;
mod one_person;
mod settings;
mod trouble;
mod unseen;

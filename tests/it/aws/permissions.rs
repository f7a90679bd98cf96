//! What each part may do on AWS, held to what it does: to the calls in the source, and to those of running parts.

mod iam;
mod running;
mod written;

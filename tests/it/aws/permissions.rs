//! The permissions of each part on AWS, compared with the calls in the source and with those of running
//! parts.

mod iam;
mod running;
mod source;

//! Tests of the AWS backend, on the stack that the harness finds.

mod archive;
mod changes;
mod claims;
mod cloudformation;
mod commands;
mod convergence;
mod copies;
mod counts;
mod crash;
mod doctor;
mod erase;
mod existence;
mod export;
mod fargate;
mod faults;
mod figures;
mod files;
mod files_in_bucket;
mod fleet;
mod history;
mod idle;
mod localstack;
mod permissions;
mod provision;
mod publish;
mod questions;
mod queue;
mod search;
mod setup;
mod view;
mod waiting;

use aws::provision::Parts;

const TABLES_ONLY: Parts<'static> = Parts { queues: &[], tables: true, bucket: false };
const BUCKET_ONLY: Parts<'static> = Parts { queues: &[], tables: false, bucket: true };
const TABLES_AND_BUCKET: Parts<'static> = Parts { queues: &[], tables: true, bucket: true };

//! The table of workers is complete: every row has a build and a binary.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use fleet::args::ExistenceArgs;
use fleet::args::HistorianArgs;
use fleet::args::ResponderSettings;
use fleet::args::WaitArgs;
use fleet::environment::{Environment, WorkSettings};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use ports::clock::SystemClock;
use ports::workers::WORKERS;
use process::config::backend::{Backend, BackendArgs};
use slack_api::{ApiUrl, Tokens, WebApi};
use workers::directory::MembersToList;
use workers::file_downloader;
use workers::keeper::NightTime;

#[tokio::test]
async fn every_row_builds_the_worker_with_its_name_and_queue() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SystemClock::shared();
    let backend = Backend::open(&BackendArgs::embedded(folder.path()), Arc::clone(&clock)).await.unwrap();
    let settings = WorkSettings {
        web: Arc::new(WebApi::new(ApiUrl::default(), Tokens::empty())),
        join: true,
        members: MembersToList::All,
        existence: ExistenceArgs::default(),
        downloads: file_downloader::DownloadSettings::default(),
        backfill: HistorianArgs::default(),
        night: NightTime { at: Time::midnight(), zone: TimeZone::UTC },
        responder: ResponderSettings::off(),
        waiting: WaitArgs::default(),
        search_index: None,
    };
    let environment = Environment::from_backend(&backend, &clock, settings);
    for (spec, build) in fleet::all() {
        let worker = build(&environment);
        assert_eq!((worker.name(), worker.queue()), (spec.name, spec.queue.name));
    }
    drop(environment);
    backend.close().await;
}

#[test]
fn every_row_has_a_binary_and_every_binary_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workers/fleet/src/bin");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let binaries: BTreeSet<String> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(binaries, WORKERS.iter().map(|spec| spec.name.to_owned()).collect());
}

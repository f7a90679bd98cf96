//! `annalist files`: lists shared files with their state, and the reason if a file is not stored.

use std::io::{self, Write};

use jiff::Timestamp;
use ports::archive::{Archive, Item, Query, key};
use reader::files::{FileOrigin, verdict_text};
use reader::find;
use reader::names::DisplayNames;
use reader::numbers::human_size;
use reader::rows::VisibleRows;
use rules::file::row::{self, Share};
use rules::message::rfc3339;
use rules::project;
use rules::view::FileView;
use serde_json::json;
use slack::ids::UserId;

use super::{ReadArgs, ReadError};
use crate::plain;

/// Maximum length of a name in a line.
const NAME: usize = 80;

/// `annalist files`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FilesArgs {
    /// Only those shared in this channel: its name or id, such as '#general' or C0123ABCD
    #[arg(value_name = "CHANNEL", value_parser = super::target::channel)]
    pub(crate) channel: Option<String>,
    /// With user_id and user_name of who uploaded each, and the time when it was last shared
    #[arg(long, requires = "json")]
    pub(crate) with_names: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// A file that is listed.
struct FileWithOrigin {
    file: FileView,
    origin: FileOrigin,
}

impl FileWithOrigin {
    fn read(item: &Item) -> Option<Self> {
        Some(Self { file: project::file(item)?, origin: FileOrigin::read(item) })
    }

    fn add_names(&mut self, names: &DisplayNames<'_>) {
        let FileOrigin { user, shared_at } = &self.origin;
        let json = self.file.json_mut();
        json["user_id"] = json!(user);
        json["user_name"] = json!(user.as_ref().map(|user| names.person_name(user.as_str())));
        json["time"] = json!(shared_at.as_ref().map(rfc3339));
    }
}

/// Counts of the printed files, for the summary line.
#[derive(Default)]
struct Sum {
    held: usize,
    held_bytes: u64,
    failed: usize,
    skipped: usize,
    pending: usize,
}

impl Sum {
    fn add(&mut self, file: &FileView) {
        match file.state() {
            Some("held") => {
                self.held += 1;
                self.held_bytes = self.held_bytes.saturating_add(file.size_bytes().unwrap_or_default());
            }
            Some("failed") => self.failed += 1,
            Some("skipped") => self.skipped += 1,
            Some(_) | None => self.pending += 1,
        }
    }

    fn is_empty(&self) -> bool {
        self.held + self.failed + self.skipped + self.pending == 0
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { held, held_bytes, failed, skipped, pending } = self;
        if self.is_empty() {
            return writeln!(out, "No files yet: they are kept as they are shared.");
        }
        let size = human_size(*held_bytes);
        writeln!(out, "\n{held} held ({size}), {failed} failed, {skipped} skipped, {pending} pending.")?;
        if failed + pending > 0 {
            writeln!(out, "`annalist files retry` asks Slack again for what failed or is pending.")?;
        }
        Ok(())
    }
}

/// Prints the files of every workspace, of one, or of one channel.
pub(crate) async fn files(
    archive: &dyn Archive,
    args: &FilesArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let read = &args.read;
    let mut sum = Sum::default();
    if let Some(name) = &args.channel {
        let channel = find::find_channel(archive, name, read.team.as_ref()).await?;
        let is_in =
            |share: Share| channel.locations().iter().any(|location| location.channel == share.channel);
        let shown = |item: &Item| row::shares(item).any(is_in).then(|| FileWithOrigin::read(item)).flatten();
        let query = Query::partition(key::files(&channel.current_location().team));
        let names = args.with_names.then(|| DisplayNames::for_teams(archive, channel.teams()));
        list(VisibleRows::all(&channel, query, shown), names, read, &mut sum, out).await?;
    } else {
        for team in find::requested_teams(archive, read.team.as_ref()).await? {
            let query = Query::partition(key::files(&team));
            let names = args.with_names.then(|| DisplayNames::new(archive, team));
            list(VisibleRows::all(archive, query, FileWithOrigin::read), names, read, &mut sum, out).await?;
        }
    }
    if !read.json {
        sum.print(out)?;
    }
    Ok(())
}

async fn list(
    mut rows: VisibleRows<'_, FileWithOrigin>,
    mut names: Option<DisplayNames<'_>>,
    read: &ReadArgs,
    sum: &mut Sum,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let addresses = read.file_addresses()?;
    if let Some(limit) = read.limit {
        rows.keep_newest(limit.get()).await?;
    }
    while let Some(mut page) = rows.next().await? {
        if let Some(names) = &mut names {
            names
                .learn_people(
                    page.iter().filter_map(|listed| listed.origin.user.as_ref()).map(UserId::as_str),
                )
                .await?;
            page.iter_mut().for_each(|listed| listed.add_names(names));
        }
        for FileWithOrigin { file, .. } in &page {
            let file = addresses.of(file.as_json());
            if read.json {
                plain::json_line(out, &*file)?;
            } else {
                if sum.is_empty() {
                    writeln!(out, "{:<12}  {:<8}  {:>8}  name", "id", "state", "size")?;
                }
                let file = FileView::from(file.into_owned());
                sum.add(&file);
                print(&file, out)?;
            }
        }
    }
    Ok(())
}

/// Prints a line with the file, and a line with its location or the reason why it is not stored.
fn print(file: &FileView, out: &mut dyn Write) -> io::Result<()> {
    let word = |text: Option<&str>| plain::line(text.unwrap_or_default());
    let size = file.size_bytes().map(human_size).unwrap_or_default();
    let name = plain::excerpt(file.name().unwrap_or("unnamed"), NAME);
    let deleted = if file.is_deleted() { "  (deleted in Slack)" } else { "" };
    writeln!(out, "{:<12}  {:<8}  {size:>8}  {name}{deleted}", word(file.id_text()), word(file.state()))?;
    let verdict = || file.verdict().map(verdict_text);
    for detail in file.uri().or(file.error()).or_else(verdict).into_iter().chain(file.other_uris()) {
        writeln!(out, "    {}", plain::line(detail))?;
    }
    // The first line shows a canvas's only version.
    for version in file.versions().filter(|_| file.versions().len() > 1) {
        let edited = version.updated_s().and_then(|at| Timestamp::from_second(at.try_into().ok()?).ok());
        let edited = edited.map(|edited| edited.to_string()).unwrap_or_default();
        let detail = version.uri().or_else(|| version.verdict().map(verdict_text));
        writeln!(out, "    version of {edited}: {}", plain::line(detail.unwrap_or_default()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{CliFixture, message_args, output};

    async fn printed(fixture: &CliFixture, channel: Option<&str>, json: bool) -> String {
        let read = ReadArgs { json, ..message_args("C1", "1700000001.000000").read };
        let args = FilesArgs { channel: channel.map(str::to_owned), with_names: false, read };
        output(async |out| files(fixture.archive(), &args, out).await).await.unwrap()
    }

    async fn two_channels() -> CliFixture {
        let fixture = CliFixture::open().await;
        let file =
            |id: &str, name: &str, mode: &str| json!({ "id": id, "name": name, "mode": mode, "size": 1_234 });
        let hostile = format!("a\u{1b}[2J\nF9 held{}", "x".repeat(10_000));
        fixture.share("T1", "C1", "1700000001.000000", &file("F1", "plan.pdf", "hosted")).await;
        fixture.share("T1", "C2", "1700000002.000000", &file("F2", &hostile, "external")).await;
        fixture.share("T1", "C2", "1700000003.000000", &file("F1", "plan.pdf", "hosted")).await;
        fixture
    }

    #[tokio::test]
    async fn text_output_shows_the_state_and_the_reason() {
        let fixture = two_channels().await;
        let text = printed(&fixture, None, false).await;
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.remove(0), "id            state         size  name");
        assert_eq!(lines[0], "F1            pending     1.2 kB  plan.pdf");
        assert_eq!(lines[1], "    there was no token for this workspace");
        assert!(lines[2].starts_with("F2            skipped     1.2 kB  a␛[2J F9 held"), "{}", lines[2]);
        assert_eq!(lines[3], "    it is kept on another service");
        assert_eq!(lines[5], "0 held (0 B), 0 failed, 1 skipped, 1 pending.");
        assert!(!text.replace('\n', "").contains(char::is_control) && text.len() < 700, "{text:?}");
    }

    #[tokio::test]
    async fn a_channel_lists_only_its_own_files_and_json_is_the_row() {
        let fixture = two_channels().await;
        let ids = |text: &str| -> Vec<String> {
            let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            rows.map(|row| row["file_id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(ids(&printed(&fixture, Some("C1"), true).await), ["F1"]);
        assert_eq!(ids(&printed(&fixture, Some("C2"), true).await), ["F1", "F2"]);
        let row: Value = serde_json::from_str(printed(&fixture, Some("C1"), true).await.trim()).unwrap();
        assert_eq!(row["shares"].as_array().unwrap().len(), 2);
        assert_eq!((&row["state"], &row["verdict"]), (&json!("pending"), &json!("pending")));
    }

    #[tokio::test]
    async fn a_canvas_is_listed_with_all_its_versions() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "look").await;
        for (updated, text) in [(1_700_000_000, "first"), (1_700_000_100, "second")] {
            for update in testkit::canvas::version(("C1", "1700000001.000000"), "F1", "Plan", updated, text).1
            {
                fixture.archive().write(&update).await.unwrap();
            }
        }
        let text = printed(&fixture, None, false).await;
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines[0].starts_with("F1            held") && lines[0].ends_with("6 B  Plan"), "{text}");
        assert!(lines[1].ends_with("/C1/1700000001.000000/F1.001700000100"), "{text}");
        assert!(lines[2].starts_with("    version of 2023-11-14T22:13:20Z: "), "{text}");
        assert!(lines[3].ends_with("/F1.001700000100"), "{text}");
        let row: Value = serde_json::from_str(printed(&fixture, None, true).await.trim()).unwrap();
        let versions: Vec<&Value> =
            row["versions"].as_array().unwrap().iter().map(|version| &version["updated"]).collect();
        assert_eq!(versions, [&json!(1_700_000_000), &json!(1_700_000_100)]);
        assert_eq!(row["versions"][1]["uri"], row["uri"]);
    }

    #[tokio::test]
    async fn an_archive_without_files_prints_a_notice() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "text").await;
        assert!(printed(&fixture, None, false).await.starts_with("No files yet"));
        assert_eq!(printed(&fixture, None, true).await, "");
    }
}

//! `annalist publish --check`: compares a site with its state, and looks for links that lead nowhere and for names
//! that must not be on it. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rules::publishing::PublicNames;
use serde_json::{Value, json};
use viewer::public_links::{FILES, PICTURES};

use super::PublishError;
use super::state::{STATE_FOLDER, SiteState, UnitKind};
use super::write::{hash_of, hash_of_file};

/// The ends of names of files with links.
const PAGES: &str = ".html";

/// Something that is wrong with a site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SiteProblem {
    pub(super) path: String,
    pub(super) problem: &'static str,
    pub(super) detail: String,
}

impl SiteProblem {
    fn new(problem: &'static str, path: &str, detail: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem, detail: detail.into() }
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { path, problem, detail } = self;
        json!({ "problem": problem, "path": path, "detail": detail })
    }
}

/// Names that must not be on a site.
#[derive(Debug, Default)]
pub(super) struct UnshownNames {
    people: BTreeSet<String>,
    channels: BTreeSet<String>,
}

impl UnshownNames {
    /// Collects the names. A name that is also shown on the site is left out. The names of the archive are
    /// given with their ids.
    pub(super) fn new(
        public: &PublicNames,
        people: &[(String, String)],
        channels: &[(String, String)],
    ) -> Self {
        let is_hidden = |id: &str| public.hidden.contains_key(id) || public.pseudonym_key.is_some();
        let shown: BTreeSet<&String> =
            people.iter().filter(|(id, _)| !is_hidden(id)).map(|(_, name)| name).collect();
        let hidden = people.iter().filter(|(id, name)| is_hidden(id) && !shown.contains(name));
        let published: BTreeSet<&String> = public.channels.values().collect();
        let unlisted =
            channels.iter().filter(|(id, name)| public.channel(id).is_none() && !published.contains(name));
        Self {
            people: hidden.map(|(_, name)| escaped(name)).collect(),
            channels: unlisted.map(|(_, name)| escaped(name)).collect(),
        }
    }

    /// Returns a name that a file shows as pages and feeds show names.
    fn shown_in<'n>(&'n self, content: &str) -> Option<&'n str> {
        let shows = |before: &[&str], name: &str, after: &[&str]| {
            content.match_indices(name).any(|(start, _)| {
                before.iter().any(|before| content[..start].ends_with(before))
                    && after.iter().any(|after| content[start + name.len()..].starts_with(after))
            })
        };
        let person = self.people.iter().find(|name| {
            shows(
                &["class=\"author\">", "class=\"mention\">@", "<name>", "\"name\":\"", "aria-label=\""],
                name,
                &["<", ",", "\"", " ("],
            )
        });
        let channel =
            || self.channels.iter().find(|name| shows(&["class=\"mention\">#", "<bdi>#"], name, &["<"]));
        person.or_else(channel).map(String::as_str)
    }
}

/// A link with a fragment: the page that has it, and the fragment.
type FragmentLink = (String, String);

/// Checks a site. `address` and `base` are the site's address and its path. Returns the number of files and the
/// problems, by path.
pub(super) fn check(
    state: &SiteState,
    folder: &Path,
    address: &str,
    base: &str,
    unshown: &UnshownNames,
) -> Result<(u64, Vec<SiteProblem>), PublishError> {
    let mut problems = BTreeSet::new();
    for kind in [UnitKind::Month, UnitKind::Channel, UnitKind::Site] {
        for unit in state.dirty(kind)? {
            let place = format!("{} {}", unit.channel, unit.month);
            problems.insert(SiteProblem::new("unfinished", &unit.channel, place.trim()));
        }
    }
    let known = known_files(state)?;
    let mut found = BTreeSet::new();
    list(folder, folder, &mut found)?;
    for path in found.iter().filter(|path| !known.contains_key(*path)) {
        problems.insert(SiteProblem::new("unknown_file", path, "no run wrote it"));
    }
    let mut mapped = BTreeSet::new();
    let mut fragments: BTreeMap<String, Vec<FragmentLink>> = BTreeMap::new();
    for (path, (hash, _)) in &known {
        // A copy may be large, and no text in it is of the site.
        let read = match is_copy(path) {
            true => hash_of_file(&folder.join(path)).map(|hash| (hash, Vec::new())),
            false => fs::read(folder.join(path)).map(|content| (hash_of(&content), content)),
        };
        let Ok((found_hash, content)) = read else {
            problems.insert(SiteProblem::new("missing_file", path, "the state has it"));
            continue;
        };
        match hash {
            None => {
                problems.insert(SiteProblem::new("unfinished", path, "a run ended before it was done"));
            }
            Some(hash) if *hash != found_hash => {
                problems.insert(SiteProblem::new("changed_file", path, "it is not as it was written"));
            }
            Some(_) => {}
        }
        let content = String::from_utf8_lossy(&content);
        if let Some(name) = unshown.shown_in(&content) {
            problems.insert(SiteProblem::new("hidden", path, format!("it names {name}")));
        }
        if path.ends_with(".xml") {
            mapped.extend(between(&content, "<loc>", "</loc>").filter_map(|loc| own_path(loc, address)));
        }
        for link in links(&content).filter(|_| path.ends_with(PAGES)) {
            let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match target_of(path, target, address, base) {
                Some(target) if found.contains(&target) => target,
                Some(_) => {
                    problems.insert(SiteProblem::new("broken_link", path, link));
                    continue;
                }
                None => continue,
            };
            if !fragment.is_empty() {
                fragments.entry(target).or_default().push((path.clone(), fragment.to_owned()));
            }
        }
    }
    for (target, wanted) in fragments {
        let content = fs::read(folder.join(&target))?;
        let content = String::from_utf8_lossy(&content);
        let ids: BTreeSet<&str> = between(&content, " id=\"", "\"").collect();
        for (path, fragment) in wanted.iter().filter(|(_, fragment)| !ids.contains(fragment.as_str())) {
            problems.insert(SiteProblem::new("broken_link", path, format!("{target}#{fragment}")));
        }
    }
    for (path, _) in known.iter().filter(|(path, (_, is_listed))| *is_listed && !mapped.contains(*path)) {
        problems.insert(SiteProblem::new("not_in_sitemap", path, "no sitemap lists it"));
    }
    Ok((found.len() as u64, problems.into_iter().collect()))
}

fn is_copy(path: &str) -> bool {
    path.split_once('/').is_some_and(|(folder, _)| [FILES, PICTURES].contains(&folder))
}

/// The files that the state knows: their hashes, and whether the sitemap lists them.
fn known_files(state: &SiteState) -> Result<BTreeMap<String, (Option<String>, bool)>, PublishError> {
    let mut statement = state.db().prepare("SELECT path, hash, is_listed FROM page")?;
    let files = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    Ok(files.collect::<rusqlite::Result<_>>()?)
}

/// Lists the files of a folder, without the state.
fn list(root: &Path, folder: &Path, found: &mut BTreeSet<String>) -> Result<(), PublishError> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if folder != root || entry.file_name() != STATE_FOLDER {
                list(root, &path, found)?;
            }
        } else if let Ok(path) = path.strip_prefix(root) {
            found.insert(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

/// The values of the attributes that are links.
fn links(content: &str) -> impl Iterator<Item = &str> {
    between(content, " href=\"", "\"").chain(between(content, " src=\"", "\"")).chain(between(
        content,
        "og:url\" content=\"",
        "\"",
    ))
}

fn between<'c>(content: &'c str, start: &'static str, end: &'static str) -> impl Iterator<Item = &'c str> {
    content.split(start).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
}

/// Returns the path that a link leads to; `None` if it leads to another site.
fn target_of(page: &str, link: &str, address: &str, base: &str) -> Option<String> {
    if link.contains("://") {
        return own_path(link, address);
    }
    if ["mailto:", "tel:"].iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    if link.is_empty() {
        return Some(page.to_owned());
    }
    if link.starts_with('/') {
        return Some(decoded(link.strip_prefix(base).unwrap_or(link)));
    }
    let mut target: Vec<&str> = page.split('/').collect();
    target.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(target.pop()),
            part => target.push(part),
        }
    }
    Some(decoded(&target.join("/")))
}

fn own_path(link: &str, address: &str) -> Option<String> {
    link.strip_prefix(address).map(|path| decoded(path.split('#').next().unwrap_or_default()))
}

/// Decodes percent-encoded bytes.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut parts = path.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part[2..].bytes());
            }
            None => bytes.extend(format!("%{part}").bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name as pages have it.
fn escaped(name: &str) -> String {
    name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

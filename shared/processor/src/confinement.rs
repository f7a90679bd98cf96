//! What a command cannot reach: the folders and files that are hidden from it, and this process.
//!
//! Landlock restricts the thread that starts the command, and with it everything that the command starts.
//! Landlock only allows, so everything beside the hidden paths is allowed, and neither they nor the folders
//! above them are. A restricted program also cannot look into other processes or signal them.
//! <https://docs.kernel.org/userspace-api/landlock.html>

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// The newest features that are used. An older kernel enforces those that it knows.
const ABI_USED: ABI = ABI::V6;

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// The maximum number of files and folders beside the hidden paths and the folders above them: each costs an
/// open file for a moment.
const MAX_ALLOWED: usize = 20_000;

/// Whether this kernel restricts programs.
pub(crate) fn is_supported() -> bool {
    // A thread that ends at once: a restriction can never be taken back.
    let status = thread::spawn(|| restrict(&[])).join();
    matches!(status, Ok(Ok(status)) if status.ruleset != RulesetStatus::NotEnforced)
}

/// Runs `start` in a thread that cannot reach the hidden paths.
///
/// # Errors
/// If the paths beside them cannot be listed, or the thread cannot be restricted.
pub(crate) fn start_without<T: Send>(
    hidden: &[PathBuf],
    start: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    if hidden.is_empty() {
        return start();
    }
    let allowed = beside(hidden)?;
    let run = || {
        // Root could look into other processes all the same.
        set_capabilities(None, NO_CAPABILITIES)?;
        restrict(&allowed).map_err(io::Error::other)?;
        start()
    };
    thread::scope(|scope| {
        let started = scope.spawn(run).join();
        started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command panicked")))
    })
}

fn restrict(allowed: &[PathBuf]) -> Result<RestrictionStatus, RulesetError> {
    let all = AccessFs::from_all(ABI_USED);
    let mut ruleset = Ruleset::default().handle_access(all)?.scope(Scope::from_all(ABI_USED))?.create()?;
    for path in allowed {
        // A path that was removed meanwhile, or that this process may not open either.
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { all } else { AccessFs::from_file(ABI_USED) };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
    }
    ruleset.restrict_self()
}

/// Everything that is neither hidden nor above something hidden.
fn beside(hidden: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    // A path that does not exist hides nothing.
    let hidden: Vec<PathBuf> = hidden.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let (mut allowed, mut above) = (Vec::new(), vec![PathBuf::from("/")]);
    while let Some(folder) = above.pop() {
        // What this process cannot list, the command cannot read either.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            // A link leads to what it names.
            let Ok(path) = fs::canonicalize(entry?.path()) else { continue };
            let is_hidden = hidden.iter().any(|hidden| path.starts_with(hidden));
            if is_hidden {
                continue;
            }
            if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
                allowed.push(path);
            } else if is_child(&path, &folder) {
                above.push(path);
            }
            if allowed.len() > MAX_ALLOWED {
                let folder = folder.display();
                return Err(io::Error::other(format!(
                    "there are more than {MAX_ALLOWED} files beside the archive, in {folder}: give it a folder of its own"
                )));
            }
        }
    }
    Ok(allowed)
}

/// Whether it is an entry of the folder, and no link to a folder above it.
fn is_child(path: &Path, folder: &Path) -> bool {
    path.parent() == Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_hidden_paths_and_the_folders_above_them_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["above/archive/inner", "above/beside", "other"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("above/tokens"), "").unwrap();
        for (link, target) in [("other/up", "above"), ("other/in", "above/archive"), ("link", "above/beside")]
        {
            std::os::unix::fs::symlink(root.join(target), root.join(link)).unwrap();
        }
        let hidden = ["above/archive", "above/tokens", "absent"].map(|name| root.join(name));
        let allowed = beside(&hidden).unwrap();
        let below: Vec<&PathBuf> = allowed.iter().filter(|path| path.starts_with(&root)).collect();
        let beside_it = root.join("above/beside");
        assert_eq!(below.iter().filter(|path| ***path == beside_it).count(), 2, "{below:?}");
        assert!(below.contains(&&root.join("other")) && below.len() == 3, "{below:?}");
        assert!(allowed.contains(&PathBuf::from("/usr")));
        assert!(allowed.iter().all(|path| !root.starts_with(path)), "{allowed:?}");
    }
}

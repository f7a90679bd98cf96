use serde_json::json;
use tempfile::NamedTempFile;

use super::*;

/// An arbitrary hash: the headers are checked without it.
const HASH: &str = "00";

fn listed(path: &str, bytes: u64) -> serde_json::Value {
    json!({ "path": path, "bytes": bytes, "sha256": HASH })
}

fn manifest(files: &[(&str, u64)]) -> serde_json::Value {
    let files: Vec<_> = files.iter().map(|(path, bytes)| listed(path, *bytes)).collect();
    json!({ "format": 1, "schema": 1, "annalist": "0.1.0", "created": "", "files_uri": "file:///old/files",
        "has_files": true, "database": listed(DATABASE_FILE, 2), "files": files })
}

/// Returns a tar with these entries, unchecked.
fn packed(entries: &[(Header, Vec<u8>)]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut tar = tar::Builder::new(file.reopen().unwrap());
    for (header, bytes) in entries {
        tar.append(header, &bytes[..]).unwrap();
    }
    tar.into_inner().unwrap();
    file
}

fn plain(name: &str, bytes: &[u8]) -> (Header, Vec<u8>) {
    (header(name, bytes.len() as u64, 1).unwrap(), bytes.to_vec())
}

fn with_manifest(entries: &[(Header, Vec<u8>)], manifest: &serde_json::Value) -> NamedTempFile {
    let list = plain(MANIFEST, manifest.to_string().as_bytes());
    packed(&[entries, &[list]].concat())
}

fn refusal(file: &NamedTempFile) -> String {
    let error = Packed::read(file.reopen().unwrap()).err().expect("the backup is refused");
    let line = format!("{error:#}");
    assert!(!line.contains('\n'), "{line}");
    line
}

fn whole() -> Vec<(Header, Vec<u8>)> {
    vec![plain(DATABASE_FILE, b"db"), plain("files/slack/T1/a", b"abc"), plain("files/slack/T1/b", b"")]
}

const FILES_OF_WHOLE: &[(&str, u64)] = &[("slack/T1/a", 3), ("slack/T1/b", 0)];

#[test]
fn packed_files_are_unpacked_in_order() {
    let file = with_manifest(&whole(), &manifest(FILES_OF_WHOLE));
    let mut seen = Vec::new();
    let unpacked = Packed::read(file.reopen().unwrap()).unwrap().unpack(|entry, bytes| {
        let mut text = String::new();
        bytes.read_to_string(&mut text)?;
        seen.push((entry.path.clone(), text));
        Ok(())
    });
    assert_eq!(unpacked.unwrap().files.len(), 2);
    let expected = [("annalist.db", "db"), ("slack/T1/a", "abc"), ("slack/T1/b", "")];
    assert!(seen.iter().map(|(path, text)| (path.as_str(), text.as_str())).eq(expected), "{seen:?}");
}

#[test]
fn a_manifest_that_does_not_match_is_refused() {
    let a_bomb = |bytes: u64| {
        let mut bomb = header("files/slack/T1/a", 3, 1).unwrap();
        bomb.set_size(bytes);
        bomb.set_cksum();
        bomb
    };
    let list = || manifest(FILES_OF_WHOLE);
    let changed = |name: &str, value: serde_json::Value| {
        let mut list = list();
        list[name] = value;
        list
    };
    let extra = [whole(), vec![plain("files/slack/T1/c", b"x")]].concat();
    let swapped = vec![whole()[0].clone(), whole()[2].clone(), whole()[1].clone()];
    for (entries, list, expected) in [
        (whole()[..2].to_vec(), list(), "files/slack/T1/b is missing"),
        (extra, list(), "files/slack/T1/c, which its manifest.json does not list"),
        (vec![whole()[0].clone(), whole()[2].clone()], list(), "holds files/slack/T1/b where"),
        (vec![], list(), "annalist.db is missing"),
        (whole(), manifest(&[("slack/T1/a", 4), ("slack/T1/b", 0)]), "3 bytes long"),
        (swapped, manifest(&[("slack/T1/b", 0), ("slack/T1/a", 3)]), "out of order"),
        (whole(), manifest(&[("slack/T1/a", 3), ("slack/T1/a", 3)]), "out of order"),
        (whole(), manifest(&[("../../etc/passwd", 3)]), "no file's name"),
        (whole(), manifest(&[("/etc/passwd", 3)]), "no file's name"),
        (whole(), changed("database", listed("other.db", 2)), "lists no annalist.db"),
        (whole(), changed("database", json!({ "path": DATABASE_FILE, "bytes": 2 })), "without a hash"),
        (whole(), changed("files", json!("many")), "cannot be read"),
        (whole(), changed("schema", json!(1_000)), "newer than this one: upgrade"),
        (whole(), changed("format", json!(2)), "newer than this one: upgrade"),
        (vec![whole()[0].clone(), (a_bomb(1 << 40), b"abc".to_vec())], list(), "cut off in files/slack/T1/a"),
        (
            vec![whole()[0].clone(), (a_bomb(u64::MAX), b"abc".to_vec())],
            list(),
            "cut off in files/slack/T1/a",
        ),
    ] {
        let line = refusal(&with_manifest(&entries, &list));
        assert!(line.contains(expected), "{expected:?} is not in {line:?}");
    }
}

#[test]
fn anything_but_a_plain_file_is_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
        EntryType::GNUSparse,
        EntryType::GNULongName,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
    ] {
        let mut link = header("files/slack/T1/a", 3, 1).unwrap();
        link.set_entry_type(kind);
        link.set_cksum();
        let file =
            with_manifest(&[whole()[0].clone(), (link, b"abc".to_vec())], &manifest(&[("slack/T1/a", 3)]));
        assert!(refusal(&file).contains("not a plain file"), "{kind:?}");
    }
}

#[test]
fn names_that_are_paths_to_elsewhere_are_refused() {
    for name in ["../evil", "/etc/passwd", "files/../../evil", "files/slack/T1/./a"] {
        let mut elsewhere = header("x", 3, 1).unwrap();
        let field = &mut elsewhere.as_mut_bytes()[..100];
        field.fill(0);
        field[..name.len()].copy_from_slice(name.as_bytes());
        elsewhere.set_cksum();
        let file = with_manifest(
            &[whole()[0].clone(), (elsewhere, b"abc".to_vec())],
            &manifest(&[("slack/T1/a", 3)]),
        );
        let line = refusal(&file);
        assert!(line.contains("where its manifest.json lists files/slack/T1/a"), "{line}");
    }
}

#[test]
fn truncated_and_extended_backups_are_refused() {
    let file = with_manifest(&whole(), &manifest(FILES_OF_WHOLE));
    let bytes = std::fs::read(file.path()).unwrap();
    let file_with = |bytes: &[u8]| {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    };
    for length in (0..bytes.len()).step_by(64) {
        refusal(&file_with(&bytes[..length]));
    }
    for more in [&[0; 512][..], b"x", &bytes[..]] {
        assert!(refusal(&file_with(&[&bytes[..], more].concat())).contains("does not end"));
    }
    let mut damaged = bytes;
    damaged[5] ^= 1;
    assert!(refusal(&file_with(&damaged)).contains("damaged"));
    assert!(refusal(&file_with(&[7; 4096])).contains("no backup"));
}

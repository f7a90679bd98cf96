//! `SHA256SUMS`: the hashes of the files of a folder, as `sha256sum -c` reads them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use slack::hex::to_hex;

/// The file's name in the folder.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Writes the hashes of all files below a folder, in the order of their names.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    let mut lines = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        for entry in std::fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "a file's name is not UTF-8");
            let name = entry.file_name().into_string().map_err(not_text)?;
            let name = if below.is_empty() { name } else { format!("{below}/{name}") };
            if entry.file_type()?.is_dir() {
                folders.push(name);
            } else {
                lines.push((name.clone(), hash(&entry.path())?));
            }
        }
    }
    lines.sort_unstable();
    let mut file = disk::private_file_options().write(true).create_new(true).open(folder.join(SUMS))?;
    let mut text = String::new();
    for (name, hash) in lines {
        text.push_str(&line(&name, &hash));
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A line of `sha256sum`, which escapes backslashes and line ends.
fn line(name: &str, hash: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let mark = if escaped == name { "" } else { "\\" };
    format!("{mark}{hash}  {escaped}\n")
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(to_hex(&hasher.finalize())),
            length => hasher.update(&chunk[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_folder_is_listed_in_the_order_of_names() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        for (name, text) in [("c.txt", "abc"), ("b/a.txt", ""), ("a\\b.txt", "abc")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        write(folder.path()).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = format!("\\{abc}  a\\\\b.txt\n{empty}  b/a.txt\n{abc}  c.txt\n");
        assert_eq!(std::fs::read_to_string(folder.path().join(SUMS)).unwrap(), expected);
    }
}

//! Lists of the published files.

use std::collections::BTreeMap;

use ports::files::{FileKey, LIST_PAGE, ListedFile};

use super::case::{FilesCase, key, noise, shared};

impl FilesCase {
    /// Reads all pages of the list, and asserts that no file comes twice.
    async fn listed(&self) -> BTreeMap<FileKey, u64> {
        let (mut listed, mut after) = (BTreeMap::new(), None);
        loop {
            let page = self.fixture.files.list(after.as_ref()).await.unwrap();
            assert!(page.len() <= LIST_PAGE);
            let Some(last) = page.last() else { return listed };
            after = Some(last.key.clone());
            for ListedFile { key, size_bytes } in page {
                assert_eq!(listed.insert(key.clone(), size_bytes), None, "{key} is listed twice");
            }
        }
    }
}

pub(super) async fn every_published_file_is_listed_once_with_its_length(case: FilesCase) {
    assert!(case.listed().await.is_empty());
    let team = key("F1").parts().unwrap().team().clone();
    let keys = [
        key("F1"),
        key("F10"),
        key("F1").version("other").unwrap(),
        shared("T1", "C1", "1700000000.000101", "F1"),
        shared("T1", "C10", "1700000000.000100", "F1"),
        shared("T10", "C1", "1700000000.000100", "F1"),
        FileKey::image(&team, "https://a.test/1.png"),
    ];
    let mut stored = BTreeMap::new();
    for (number, key) in keys.into_iter().enumerate() {
        case.put(&key, &noise(1, number)).await;
        stored.insert(key, number as u64);
    }
    let unpublished = case.begin(&key("F2"), &noise(2, 10)).await;
    assert_eq!(case.listed().await, stored);
    drop(unpublished);
    assert!(case.fixture.files.delete(&key("F10")).await.unwrap());
    stored.remove(&key("F10"));
    assert_eq!(case.listed().await, stored);
}

pub(super) async fn a_list_continues_after_any_key(case: FilesCase) {
    for file in ["F1", "F3", "F5"] {
        case.put(&key(file), &noise(1, 1)).await;
    }
    let after = async |key: FileKey| {
        let page = case.fixture.files.list(Some(&key)).await.unwrap();
        page.iter().map(|file| file.key.clone()).collect::<Vec<_>>()
    };
    for (at, expected) in [
        (key("F1"), vec![key("F3"), key("F5")]),
        (key("F2"), vec![key("F3"), key("F5")]),
        (key("F5"), vec![]),
        (shared("T1", "C0", "1700000000.000100", "F9"), ["F1", "F3", "F5"].map(key).to_vec()),
        (shared("T1", "C2", "1700000000.000100", "F1"), vec![]),
    ] {
        assert_eq!(after(at.clone()).await, expected, "{at}");
    }
}

//! The fuzz targets' functions on every stored input, and on a few thousand random changes of these inputs.

use std::fs;
use std::path::Path;

use testkit::fuzzed::{envelope, events, ids, signature};

const CHANGES_PER_INPUT: usize = 200;

/// The stored inputs of a target: requests of Slack's, earlier findings, and odd inputs.
fn stored_inputs(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no inputs in {}", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Makes one to four small changes: a byte is replaced, removed or inserted, or a piece of another input is
/// inserted.
fn changed(input: &[u8], other: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(..=changed.len());
        match random.u8(..4) {
            0 if at < changed.len() => changed[at] = random.u8(..),
            1 if at < changed.len() => drop(changed.remove(at)),
            2 => {
                changed.insert(at, random.choice(b"\"\\{}[],:#/.0A\0\n\xff".iter()).copied().unwrap_or(b' '))
            }
            _ => {
                let from = random.usize(..=other.len());
                let piece = other[from..(from + random.usize(..16)).min(other.len())].to_vec();
                changed.splice(at..at, piece);
            }
        }
    }
    changed
}

fn holds_for_all(target: &str, check: fn(&[u8])) {
    let inputs = stored_inputs(target);
    let mut random = fastrand::Rng::with_seed(20_261_121);
    for input in &inputs {
        check(input);
        for _ in 0..CHANGES_PER_INPUT {
            let other = random.choice(&inputs).unwrap_or(input);
            check(&changed(input, other, &mut random));
        }
    }
}

#[test]
fn any_envelope_is_refused_or_routed_as_it_came() {
    holds_for_all("envelope", envelope::check);
}

#[test]
fn any_event_is_refused_or_becomes_rows_under_well_formed_keys() {
    holds_for_all("events", events::check);
}

#[test]
fn no_forged_signature_passes_and_every_genuine_one_does() {
    holds_for_all("signature", signature::check);
}

#[test]
fn only_text_with_the_shape_of_an_id_becomes_part_of_a_path() {
    holds_for_all("ids", ids::check);
}

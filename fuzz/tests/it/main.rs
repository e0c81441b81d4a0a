//! Every target without coverage, in every test run: the seeds, the hostile inputs, and mutations of the seeds. The
//! mutations come from a fixed seed, so a failure repeats.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests: a failure is meant to be loud")]

mod mutate;

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use patra_fuzz::{FuzzTarget, TARGETS};

use mutate::Mutator;

/// Mutated inputs of one target.
const MUTATIONS: u64 = 4_000;

macro_rules! targets {
    ($($name:ident: $mutations:expr),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name), $mutations);
            }
        )*

        #[test]
        fn every_target_is_run_and_has_a_binary() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            assert_eq!(files("fuzz_targets"), names.iter().map(|name| format!("{name}.rs")).collect::<Vec<_>>());
            assert_eq!(files("corpus"), names);
            assert_eq!(files("dictionaries"), names);
        }
    };
}

targets! {
    cookies: MUTATIONS,
    csv: MUTATIONS,
    expression: MUTATIONS,
    feed: MUTATIONS,
    json_path: MUTATIONS,
    links: MUTATIONS,
    // Compiling a manifest takes a hundred times as long as reading a page.
    manifest: MUTATIONS / 10,
    page: MUTATIONS,
    xml: MUTATIONS,
}

fn run(name: &str, mutations: u64) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = seeds(name);
    for (file, input) in &seeds {
        check(target, &format!("the seed {file}"), input);
    }
    for (number, input) in (target.hostile)().iter().enumerate() {
        check(target, &format!("hostile input {number}"), input);
    }
    let dictionary = fs::read_to_string(folder("dictionaries").join(name)).unwrap();
    let seeds = seeds.into_iter().map(|(_, input)| input).collect();
    let mutator = Mutator::new(seeds, mutate::words(&dictionary));
    for number in 0..mutations {
        check(target, &format!("mutation {number}"), &mutator.input(number));
    }
}

/// Reports the input, and how to add it to the corpus.
fn check(target: &FuzzTarget, which: &str, input: &[u8]) {
    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input))) {
        eprintln!("{}: {which} fails: {}", target.name, input.escape_ascii());
        eprintln!("put it into fuzz/corpus/{} once it is fixed", target.name);
        panic::resume_unwind(panic);
    }
}

fn seeds(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder("corpus").join(name);
    let seeds: Vec<_> = files(&format!("corpus/{name}"))
        .into_iter()
        .map(|file| {
            let input = fs::read(folder.join(&file)).unwrap();
            (file, input)
        })
        .collect();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    seeds
}

fn files(path: &str) -> Vec<String> {
    let entries = fs::read_dir(folder(path)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

//! docs/writing-a-store.md shows this crate: each of its blocks stands in the file that it names,
//! and no line of those files is missing from the page.

use std::collections::BTreeMap;
use std::fs;

const FILES: [&str; 4] = [
    "src/lib.rs",
    "tests/fixture/mod.rs",
    "tests/conformance.rs",
    "tests/conformance_real_time.rs",
];

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut lines) = (Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        let Some(of) = line.strip_prefix("```") else { continue };
        let block = lines.by_ref().take_while(|line| *line != "```");
        let block: String = block.flat_map(|line| [line, "\n"]).collect();
        if of == language {
            blocks.push(block);
        }
    }
    blocks
}

#[test]
fn every_block_of_the_page_is_this_crate_and_nothing_is_left_out() {
    let page = read("../../docs/writing-a-store.md");
    let mut left: BTreeMap<&str, String> = FILES.map(|file| (file, read(file))).into();
    for block in blocks(&page, "rust") {
        let (name, code) = block.split_once('\n').unwrap();
        let name = name.strip_prefix("// ").expect("a block begins with the name of its file");
        let source = left.get_mut(name).unwrap_or_else(|| panic!("{name} is not shown"));
        assert!(source.contains(code), "this is not in {name}:\n{code}");
        *source = source.replacen(code, "", 1);
    }
    for (name, source) in left {
        let missing: Vec<_> =
            source.lines().filter(|it| !it.trim().is_empty() && !it.starts_with("//!")).collect();
        assert!(missing.is_empty(), "the page leaves this out of {name}: {missing:#?}");
    }
}

#[test]
fn the_manifest_of_the_page_names_what_this_crate_needs() {
    let page = read("../../docs/writing-a-store.md");
    let [manifest] = &blocks(&page, "toml")[..] else { panic!("one manifest") };
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("= { path") || line.contains("work"));
        let name = |line: &str| line.split([' ', '.']).next().unwrap().to_owned();
        lines.map(name).filter(|name| name.starts_with("idem")).collect()
    };
    let own = read("Cargo.toml");
    assert_eq!(names(manifest), names(&own));
    for shared in ["sha2", "tokio", "tempfile"] {
        assert!(own.contains(&format!("\n{shared}.workspace")), "{shared}");
        assert!(manifest.contains(&format!("\n{shared} = ")), "{shared}");
    }
    let (_, tests) = own.split_once("[[test]]").unwrap();
    let (tests, _) = tests.split_once("[lints]").unwrap();
    assert!(manifest.ends_with(&format!("[[test]]{}\n", tests.trim_end())), "{manifest}");
}

#[test]
fn the_page_says_how_many_lines_the_store_has_and_they_are_under_200() {
    let folder = format!("{}/src", env!("CARGO_MANIFEST_DIR"));
    let lines = |entry: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(entry.unwrap().path()).unwrap().lines().count()
    };
    let lines: usize = fs::read_dir(folder).unwrap().map(lines).sum();
    assert!(lines < 200, "{lines}");
    let page = read("../../docs/writing-a-store.md");
    assert!(page.contains(&format!("\n{lines} lines in all, comments included.")), "{lines}");
}

//! docs/http.md says what the code does.

use idem_http::problem::Code;

#[test]
fn the_page_lists_every_problem_with_its_status() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for code in Code::ALL {
        let name = format!("| `{}` |", code.error_code());
        let row = rows.iter().find(|row| row.ends_with(&name));
        let row = row.unwrap_or_else(|| panic!("{} is not in the table", code.error_code()));
        let answer = row.split(" | ").nth(1).unwrap();
        assert!(answer.contains(code.status().as_str()), "{row}");
    }
    let named = rows.iter().filter(|row| row.contains("| `idempotency_")).count();
    assert_eq!(named, Code::ALL.len(), "the table has a code that does not exist");
}

/// The value of `name = "..."` or of `name = { version = "..." .. }` in a manifest.
fn version<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
    line.strip_prefix("{ version = ").unwrap_or(line).split('"').nth(1)
}

#[test]
fn what_the_readme_depends_on_is_what_is_here() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect(path);
    let (readme, workspace) = (read("README.md"), read("Cargo.toml"));
    let (_, shown) = readme.split_once("```toml\n").expect("the README has dependencies");
    let shown = shown.split_once("```").unwrap().0;
    let mut seen = 0;
    for line in shown.lines().filter(|line| line.contains(" = ")) {
        seen += 1;
        let name = line.split(' ').next().unwrap();
        if name.starts_with("idem-") {
            let manifest = read(&format!("{name}/Cargo.toml"));
            assert!(line.contains(&format!("path = \"../idem/{name}\"")), "{line}");
            let features = line.split_once("features = [").map_or("", |(_, features)| features);
            for feature in features.split('"').skip(1).step_by(2) {
                assert!(manifest.contains(&format!("\n{feature} = [")), "{name} has no {feature}");
            }
            continue;
        }
        let ours = version(&workspace, name).unwrap_or_else(|| panic!("{name} is not used here"));
        let theirs = version(line, name).unwrap_or_else(|| panic!("{line}: which version?"));
        assert!(format!("{ours}.").starts_with(&format!("{theirs}.")), "{name}: {theirs} {ours}");
    }
    assert!(seen >= 7, "{shown}");
    let sqlx = format!("`sqlx = \"{}\"`", version(&workspace, "sqlx").unwrap());
    assert!(readme.contains(&sqlx), "the README's sqlx is not {sqlx}");
    let reqwest = version(&workspace, "reqwest").unwrap().rsplit_once('.').unwrap().0;
    assert!(readme.contains(&format!("reqwest {reqwest}")), "the README's reqwest: {reqwest}");
}

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

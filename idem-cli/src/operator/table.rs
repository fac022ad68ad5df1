//! Plain tables: aligned on a terminal and in a pipe alike, and no wider than a line can be read.

use std::io::{IsTerminal as _, stdout};

use super::text::shorten;

/// The widest that a shortened column is, in characters. A hashed scope is whole in it.
const WIDEST: usize = 72;
/// The narrowest that a terminal makes it: enough of a scope to name it by its beginning.
const NARROWEST: usize = 16;

/// A table whose long columns are bounded.
pub(super) struct Fitted {
    pub(super) text: String,
    /// Whether some cell is not whole.
    pub(super) is_cut: bool,
}

/// The rows under their headings, columns two spaces apart.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let widths = widths(headings, rows);
    let mut text = String::new();
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    for row in [&headings].into_iter().chain(rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The same, with these columns shortened to what a terminal has room for, and in a pipe where
/// they would be wider than [`WIDEST`]. Their cells are text that is escaped.
pub(super) fn fitted(headings: &[&str], rows: Vec<Vec<String>>, long: &[usize]) -> Fitted {
    fitted_to(terminal_columns(), headings, rows, long)
}

fn fitted_to(
    columns: Option<usize>,
    headings: &[&str],
    mut rows: Vec<Vec<String>>,
    long: &[usize],
) -> Fitted {
    let mut widths = widths(headings, &rows);
    for column in long {
        widths[*column] = widths[*column].min(WIDEST);
    }
    // The last column is the only one that may go over the end of the line.
    let line =
        |widths: &[usize]| widths[..widths.len() - 1].iter().map(|width| width + 2).sum::<usize>();
    let columns = columns.unwrap_or(usize::MAX);
    while let Some(over) = line(&widths).checked_sub(columns).filter(|over| *over > 0) {
        let widest = long.iter().copied().max_by_key(|column| widths[*column]);
        let Some(widest) = widest.filter(|column| widths[*column] > NARROWEST) else { break };
        // One at a time where two are as wide: neither goes below the other.
        widths[widest] -= if long.len() == 1 { over.min(widths[widest] - NARROWEST) } else { 1 };
    }
    let mut is_cut = false;
    for row in &mut rows {
        for column in long {
            if row[*column].chars().count() > widths[*column] {
                row[*column] = shorten(&row[*column], widths[*column]);
                is_cut = true;
            }
        }
    }
    Fitted { text: table(headings, &rows), is_cut }
}

fn widths(headings: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    (0..headings.len()).map(width).collect()
}

/// How wide the terminal is, if standard output is one.
fn terminal_columns() -> Option<usize> {
    let out = stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".into(), "é".into()], vec!["bcde".into(), String::new()]];
        assert_eq!(table(&["x", "y"], &rows), "x     y\na     é\nbcde\n");
    }

    fn fit(columns: Option<usize>, scope: usize, key: usize) -> (usize, bool) {
        let row = vec!["s".repeat(scope), "k".repeat(key), "live".into(), "w".repeat(50)];
        let rows = vec![row, vec!["s".into(), "k".into(), "live".into(), String::new()]];
        let fitted = fitted_to(columns, &["SCOPE", "KEY", "STATE", "WHY"], rows, &[0, 1]);
        // Every line has its state in the same place, so the last one tells how wide all are.
        let last = fitted.text.lines().last().unwrap();
        (last.chars().count(), fitted.is_cut)
    }

    #[test]
    fn a_hashed_scope_is_whole_in_a_pipe_and_the_longest_key_pads_no_row_to_its_length() {
        assert_eq!(fit(None, 68, 36), (68 + 2 + 36 + 2 + 4, false));
        assert_eq!(fit(None, 68, 1020), (68 + 2 + 72 + 2 + 4, true));
    }

    #[test]
    fn a_terminal_bounds_what_may_be_shortened_and_nothing_else() {
        for columns in 60..200 {
            let (width, is_cut) = fit(Some(columns), 68, 255);
            assert!(width <= columns && is_cut, "{columns} {width}");
        }
        assert_eq!(fit(Some(200), 68, 36), (112, false), "what fits is whole");
        assert_eq!(fit(Some(1), 68, 36), (16 + 2 + 16 + 2 + 4, true), "the floor");
    }
}

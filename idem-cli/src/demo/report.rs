//! What the demo shows: chapter by chapter on a terminal, or as one JSON document for a script.

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::network::LedgerView;
use crate::paint::Paint;
use crate::wire::{Answer, Request, WireError};

/// The most characters of a body or a header that are shown.
const SHOWN: usize = 400;

/// Collects what happened, and tells it as it happens unless JSON is wanted.
///
/// Writing never fails in the middle of the tour: the first error is kept for
/// [`finish`](Self::finish).
pub(super) struct Report<W> {
    out: W,
    paint: Paint,
    written: io::Result<()>,
    /// `None` when the report is told in words.
    document: Option<Vec<Value>>,
    told: usize,
    failed: usize,
}

impl<W: Write> Report<W> {
    /// A report in words.
    pub(super) fn in_words(out: W, paint: Paint) -> Self {
        Self { out, paint, written: Ok(()), document: None, told: 0, failed: 0 }
    }

    /// A report as one JSON document, written by [`finish`](Self::finish).
    pub(super) fn in_json(out: W) -> Self {
        Self { document: Some(Vec::new()), ..Self::in_words(out, Paint::Plain) }
    }

    /// Says what the tour is about, before its chapters.
    pub(super) fn introduce(&mut self, text: &str) {
        if self.document.is_none() {
            self.line(text);
        }
    }

    /// Begins a chapter.
    pub(super) fn chapter(&mut self, title: &str, story: &str) {
        self.told += 1;
        if let Some(chapters) = &mut self.document {
            chapters.push(json!({
                "title": title, "story": story, "steps": [], "expectations": [],
            }));
        } else {
            let heading = self.paint.strong(&format!("{}. {title}", self.told));
            self.line(&format!("\n{heading}\n   {story}\n"));
        }
    }

    /// Says what was done that is no request.
    pub(super) fn note(&mut self, text: &str) {
        if self.keep("steps", || json!({ "note": text })) {
            return;
        }
        let bullet = self.paint.faint("·");
        self.line(&format!("   {bullet} {text}"));
    }

    /// Shows a request.
    pub(super) fn sent(&mut self, request: &Request) {
        let key = request.text("idempotency-key");
        let body = String::from_utf8_lossy(request.body());
        let sent = || json!({ "sent": { "line": request.line(), "key": key, "body": body } });
        if self.keep("steps", sent) {
            return;
        }
        let arrow = self.paint.strong("→");
        self.line(&format!("   {arrow} {}", request.line()));
        self.line(&match &key {
            Some(key) => format!("     Idempotency-Key: {key}"),
            None => "     (no Idempotency-Key)".to_owned(),
        });
        self.line(&format!("     {}", shortened(&body)));
    }

    /// Shows an answer, or that there was none.
    pub(super) fn received(&mut self, answer: &Result<Answer, WireError>) {
        if self.keep("steps", || json!({ "received": received(answer) })) {
            return;
        }
        let arrow = self.paint.strong("←");
        match answer {
            Err(error) => self.line(&format!("   {arrow} no answer: {error}")),
            Ok(answer) => {
                self.line(&format!("   {arrow} {} {}", answer.status, reason(answer.status)));
                for (name, value) in &answer.headers {
                    let value = value.escape_ascii().to_string();
                    let field = self.paint.faint(&format!("{name}: {}", shortened(&value)));
                    self.line(&format!("     {field}"));
                }
                self.line(&format!("     {}", shortened(&String::from_utf8_lossy(&answer.body))));
            }
        }
    }

    /// Shows what the ledger of the card network holds for the caller of this chapter.
    pub(super) fn ledger(&mut self, ledger: &LedgerView) {
        if self.keep("steps", || json!({ "ledger": ledger })) {
            return;
        }
        let title = self.paint.strong("ledger");
        self.line(&format!("   {title}  calls: {}  charges: {}", ledger.calls, ledger.effects));
        for entry in &ledger.data {
            let charge = &entry.charge;
            self.line(&format!(
                "     {}  {} {}  downstream key {}  calls under it: {}",
                charge.id, charge.request.amount, charge.request.currency, entry.key, charge.calls,
            ));
        }
    }

    /// States an expectation, and whether it holds. `seen` says what was there instead.
    pub(super) fn expect(&mut self, holds: bool, expected: &str, seen: impl Display) {
        self.failed += usize::from(!holds);
        let expectation = || json!({ "expected": expected, "ok": holds, "seen": seen.to_string() });
        if self.keep("expectations", expectation) {
            return;
        }
        self.line(&if holds {
            format!("   {}      {expected}", self.paint.good("ok"))
        } else {
            format!("   {}  {expected} (seen: {seen})", self.paint.bad("FAILED"))
        });
    }

    /// Ends the report. Says whether every expectation held; a tour without one has shown
    /// nothing.
    ///
    /// # Errors
    /// The first error of writing.
    pub(super) fn finish(mut self) -> io::Result<bool> {
        let passed = self.failed == 0 && self.told > 0;
        let last = match self.document.take() {
            Some(chapters) => {
                let document =
                    json!({ "passed": passed, "failed": self.failed, "chapters": chapters });
                format!("{document:#}")
            }
            None if passed => format!("\n{}", self.paint.good("Every expectation held.")),
            None => {
                let failed = format!("{} expectation(s) FAILED.", self.failed);
                format!("\n{}", self.paint.bad(&failed))
            }
        };
        self.line(&last);
        self.written.and_then(|()| self.out.flush()).map(|()| passed)
    }

    fn line(&mut self, text: &str) {
        if self.written.is_ok() {
            self.written = writeln!(self.out, "{text}");
        }
    }

    /// Adds to a list of the current chapter, where the report is a document.
    fn keep(&mut self, list: &str, value: impl FnOnce() -> Value) -> bool {
        let Some(chapters) = &mut self.document else { return false };
        let chapter = chapters.last_mut().expect("a chapter was begun");
        chapter[list].as_array_mut().expect("it is a list").push(value());
        true
    }
}

fn received(answer: &Result<Answer, WireError>) -> Value {
    match answer {
        Ok(answer) => {
            let headers = answer.headers.iter();
            let headers: Vec<_> = headers
                .map(|(name, value)| [name.clone(), value.escape_ascii().to_string()])
                .collect();
            let body = String::from_utf8_lossy(&answer.body);
            json!({ "status": answer.status, "headers": headers, "body": body })
        }
        Err(error) => json!({ "no_answer": error.to_string() }),
    }
}

fn reason(status: u16) -> &'static str {
    let status = http::StatusCode::from_u16(status).ok();
    status.and_then(|status| status.canonical_reason()).unwrap_or_default()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Result<Answer, WireError> {
        Ok(Answer {
            status: 201,
            headers: vec![("x-merchant".into(), b"Caf\xe9".to_vec())],
            body: "Café".into(),
        })
    }

    fn tell<W: Write>(report: &mut Report<W>, holds: bool) {
        report.chapter("A title", "A story.");
        report.sent(&Request::post("/v1/charges", "application/json", "{}"));
        report.received(&answer());
        report.received(&Err(WireError::Malformed("its length")));
        report.note("a note");
        report.expect(true, "this holds", 1);
        report.expect(holds, "that holds", "something else");
    }

    fn in_words(holds: bool) -> (bool, String) {
        let mut out = Vec::new();
        let mut report = Report::in_words(&mut out, Paint::Plain);
        tell(&mut report, holds);
        (report.finish().unwrap(), String::from_utf8(out).unwrap())
    }

    fn in_json(holds: bool) -> (bool, Value) {
        let mut out = Vec::new();
        let mut report = Report::in_json(&mut out);
        tell(&mut report, holds);
        (report.finish().unwrap(), serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn one_expectation_that_fails_fails_the_whole() {
        assert!(in_words(true).0 && in_json(true).0);
        let (passed, words) = in_words(false);
        assert!(!passed);
        assert!(words.contains("ok      this holds"), "{words}");
        assert!(words.contains("FAILED  that holds (seen: something else)"), "{words}");
        assert!(words.ends_with("1 expectation(s) FAILED.\n"), "{words}");
        let (passed, document) = in_json(false);
        assert!(!passed);
        assert_eq!((&document["passed"], &document["failed"]), (&json!(false), &json!(1)));
        assert_eq!(
            document["chapters"][0]["expectations"][1],
            json!({ "expected": "that holds", "ok": false, "seen": "something else" })
        );
    }

    #[test]
    fn both_forms_show_what_was_sent_and_what_came_back() {
        let (_, words) = in_words(true);
        for text in ["1. A title", "→ POST /v1/charges", "← 201 Created", "x-merchant: Caf\\xe9"]
        {
            assert!(words.contains(text), "{text} is not in {words}");
        }
        assert!(words.contains("no answer: the answer is not HTTP/1.1: its length"));
        let (_, document) = in_json(true);
        let steps = &document["chapters"][0]["steps"];
        assert_eq!(steps[0]["sent"]["line"], "POST /v1/charges");
        assert_eq!(steps[1]["received"]["headers"][0], json!(["x-merchant", "Caf\\xe9"]));
        assert_eq!(steps[1]["received"]["body"], "Café");
        assert_eq!(steps[3]["note"], "a note");
    }

    #[test]
    fn long_text_is_shortened_at_a_character() {
        assert_eq!(shortened("é"), "é");
        let long = shortened(&"é".repeat(401));
        assert_eq!(long, format!("{}… (802 bytes)", "é".repeat(400)));
    }
}

//! The history checker on histories known good and known bad, and on a store that double-acquires.

mod counted;
mod hunts;
mod known;
mod unknown;
mod words;

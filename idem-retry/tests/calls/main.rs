//! Calls against a scripted destination, on a clock that a test reads to the nanosecond.

mod budgets;
mod classification;
mod deadlines;
mod hints;
mod layers;
mod numbers;
mod outcomes;
mod outlasting;
mod properties;
mod support;
mod texts;
mod timeouts;
mod uniform;

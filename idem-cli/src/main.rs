//! The idem binary.
fn main() {}

//! More names than there may be. A process of its own: it fills the table.

use idem_retry::{Budget, Destination, MAX_DESTINATIONS};

#[test]
fn names_past_the_limit_share_one_destination() {
    let first = Destination::named("first");
    for number in 1..MAX_DESTINATIONS {
        assert_eq!(Destination::named(&format!("d{number}")).name(), format!("d{number}"));
    }
    let (one, two) = (Destination::named("one more"), Destination::named("two more"));
    assert_eq!((one.name(), two.name()), ("(others)", "(others)"));
    one.budget().begin(std::time::Duration::ZERO);
    let now = std::time::Duration::ZERO;
    assert_eq!(one.budget().balance(now), two.budget().balance(now));
    assert!(Destination::configure("three more", Budget::default()).is_err());
    // Those that had a name keep it.
    assert_eq!(Destination::named("first").name(), first.name());
}

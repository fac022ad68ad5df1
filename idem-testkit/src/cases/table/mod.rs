//! The claim table, row by row, with expectations written out by hand: they do not come from the
//! pure rules, so that a mistake in those is seen too.

mod absent;
mod completed;
mod lapsed;
mod live;
mod own;
mod schemes;

use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    [
        absent::cases(),
        own::cases(),
        schemes::cases(),
        live::cases(),
        lapsed::cases(),
        completed::cases(),
    ]
    .concat()
}

//! Tests of the simulator itself: seeds repeat, regression runs stay clean, injected bugs
//! are caught.

mod kept;
mod limits;
mod planted;
mod repeats;
mod validators;

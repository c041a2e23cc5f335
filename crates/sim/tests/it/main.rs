//! The court on itself: seeds repeat themselves, kept seeds stay clean, planted bugs
//! are caught.

mod kept;
mod planted;
mod repeats;
mod validators;

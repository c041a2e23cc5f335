//! What the contract promises, asked of the serial engine.

mod serial;

//! Tests of storage as its users see it.

mod index;
mod model;
mod replay;
mod stress;
mod support;
mod table;

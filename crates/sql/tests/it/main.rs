//! SQL as clients see it, over the engines there are.

mod catalogs;
mod client;
mod engines;
mod extended;
mod reopen;
mod transcript;

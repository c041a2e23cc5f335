//! Tests of storage as its users see it.

mod index;

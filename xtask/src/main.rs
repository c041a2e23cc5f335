//! House rules that run as checks, and the commands that are not tests.

fn main() {}

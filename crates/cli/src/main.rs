//! The binary `coeval`.

use std::process::ExitCode;

use coeval_memory::allocator::{self, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator = allocator::NEW;

fn main() -> ExitCode {
    allocator::start();
    coeval_cli::run(std::env::args_os())
}

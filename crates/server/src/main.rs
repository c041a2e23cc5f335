//! The binary `coeval`.

use std::process::ExitCode;

use coeval_memory::heap::{self, Counting};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting::new(MiMalloc);

fn main() -> ExitCode {
    heap::counts();
    coeval_server::cli::run(std::env::args_os())
}

//! Panics of simulated tasks: noted, not printed.
//!
//! A world's executor catches the panic of a task, as tokio does, and the task's end
//! may interest nobody. Here every one of them is an objection.

use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes panics on this thread until [`Watch::end`].
pub(crate) struct Watch(());

impl Watch {
    pub(crate) fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                let watched = WATCHED.try_with(Cell::get).unwrap_or(false);
                if watched {
                    SEEN.with_borrow_mut(|seen| seen.push(panic.to_string()));
                } else {
                    before(panic);
                }
            }));
        });
        SEEN.take();
        WATCHED.set(true);
        Self(())
    }

    /// What panicked meanwhile, with its place.
    pub(crate) fn end(self) -> Vec<String> {
        WATCHED.set(false);
        SEEN.take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.set(false);
    }
}

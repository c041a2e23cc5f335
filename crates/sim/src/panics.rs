//! Panic capture: records the panics of simulated tasks, and reports which run the first
//! one belongs to.
//!
//! A world's executor catches the panic of a task, as tokio does, and perhaps no other
//! task observes its end. Here every panic is a violation. Unwinding may also abort the
//! process, as the drop of a reserved log position does. So the first panic of a run is
//! reported before the stack unwinds, with the command that repeats the run; otherwise it
//! would be unknown.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// Command of the run on this thread.
    static WATCHED: RefCell<Option<String>> = const { RefCell::new(None) };
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records panics on this thread until [`Watch::end`].
pub(crate) struct Watch(());

impl Watch {
    /// Starts recording for the run that `command` repeats.
    pub(crate) fn begin(command: String) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if !note(&panic.to_string()) {
                    before(panic);
                }
            }));
        });
        SEEN.take();
        WATCHED.set(Some(command));
        Self(())
    }

    /// Stops recording; returns the panics, with their locations.
    pub(crate) fn end(self) -> Vec<String> {
        WATCHED.set(None);
        SEEN.take()
    }
}

/// Records a panic; returns whether this thread is watched.
fn note(panic: &str) -> bool {
    let watched = WATCHED.try_with(|command| {
        let command = command.borrow();
        let Some(command) = command.as_ref() else {
            return false;
        };
        SEEN.with_borrow_mut(|seen| {
            if seen.is_empty() {
                eprintln!("a task panics in {command}\n{panic}");
            }
            seen.push(panic.to_owned());
        });
        true
    });
    watched.unwrap_or(false)
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aborts its process while a panic unwinds.
    struct Aborts;

    impl Drop for Aborts {
        fn drop(&mut self) {
            std::process::abort();
        }
    }

    #[test]
    #[ignore = "it has to abort its process, so the next test, which judges it, runs it in one of its own"]
    fn a_panic_that_aborts() {
        let _watch = Watch::begin("cargo run -- which run it was".to_owned());
        let _aborts = Aborts;
        panic!("between reserve and commit");
    }

    #[test]
    fn who_aborts_has_said_which_run_it_was() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture"])
            .arg("panics::tests::a_panic_that_aborts")
            .output()
            .unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cargo run -- which run it was"), "{said}");
        assert!(said.contains("between reserve and commit"), "{said}");
    }

    #[test]
    fn panics_are_noted_while_a_run_is_watched_and_no_longer() {
        let watch = Watch::begin("a run".to_owned());
        for what in ["one", "other"] {
            std::panic::catch_unwind(|| panic!("{what}")).unwrap_err();
        }
        let seen = watch.end();
        assert_eq!(seen.len(), 2);
        assert!(seen[0].contains("one") && seen[1].contains("other"));
        assert!(!note("nobody watches"));
    }
}

//! Deterministic wake-ups: tasks that one event wakes run in the order in which they were
//! started.
//!
//! A library that wakes several tasks chooses the order, which need not be the same twice:
//! `tokio::sync::watch` spreads its waiters over several lists at random. So the tasks woken
//! by one poll, or one drop, are woken only when that has ended, in the order in which they
//! were started; timers wake tasks directly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

/// Wake-ups that are collected and not yet delivered.
#[derive(Default)]
pub(crate) struct Alarms {
    /// Number of tasks started so far.
    tasks: AtomicU64,
    woken: Mutex<Woken>,
}

#[derive(Default)]
struct Woken {
    /// Number of nested polls and drops that have not ended.
    depth: u32,
    who: Vec<(u64, Waker)>,
}

impl Alarms {
    fn woken(&self) -> MutexGuard<'_, Woken> {
        self.woken.lock().expect("no panic under this lock")
    }

    /// Runs `work`, and then delivers the wake-ups that it caused, in order.
    pub(super) fn in_order<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Delivers them also when the work panics.
        struct End<'alarms>(&'alarms Alarms);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                let mut woken = self.0.woken();
                woken.depth -= 1;
                if woken.depth > 0 {
                    return;
                }
                let mut who = std::mem::take(&mut woken.who);
                drop(woken);
                who.sort_by_key(|(task, _)| *task);
                who.into_iter().for_each(|(_, waker)| waker.wake());
            }
        }
        self.woken().depth += 1;
        let _end = End(self);
        work()
    }
}

/// The waker of one task.
pub(super) struct Alarm {
    /// The task's number: later tasks have greater ones.
    task: u64,
    alarms: Arc<Alarms>,
    /// The executor's waker of the task.
    waker: Mutex<Waker>,
}

impl Alarm {
    /// A waker for a task that starts now.
    pub(super) fn new(alarms: &Arc<Alarms>) -> Arc<Self> {
        Arc::new(Self {
            task: alarms.tasks.fetch_add(1, Ordering::Relaxed),
            alarms: Arc::clone(alarms),
            waker: Mutex::new(Waker::noop().clone()),
        })
    }

    /// Sets the executor's waker.
    pub(super) fn set(&self, waker: &Waker) {
        let mut own = self.waker.lock().expect("no panic under this lock");
        own.clone_from(waker);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = self.waker.lock().expect("no panic under this lock").clone();
        let mut woken = self.alarms.woken();
        if woken.depth > 0 {
            woken.who.push((self.task, waker));
        } else {
            drop(woken);
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::World;

    /// Among twenty tasks random wake-ups would seldom keep the order.
    #[test]
    fn those_who_watch_one_thing_are_woken_in_order() {
        let world = World::new(1);
        let node = world.node();
        let order = world.run(node, async {
            let (tell, hears) = tokio::sync::watch::channel(0);
            let (note, mut notes) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..20 {
                let (mut hears, note) = (hears.clone(), note.clone());
                crate::spawn("hears", async move {
                    hears.changed().await.unwrap();
                    note.send(number).unwrap();
                });
            }
            crate::sleep(Duration::from_millis(1)).await;
            tell.send_replace(1);
            drop(note);
            let mut order = Vec::new();
            while let Some(number) = notes.recv().await {
                order.push(number);
            }
            order
        });
        assert_eq!(order.unwrap(), (0..20).collect::<Vec<_>>());
    }
}

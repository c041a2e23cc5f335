//! Simulated tasks: each is polled, and dropped, with its node's identity; and not polled
//! while its node is paused or has no core for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::alarm::Alarm;
use super::{Context, hash_bytes};
use crate::real::task::JoinHandle;

/// Sets the node's identity for every poll, and for the drop.
struct Task<F> {
    context: Context,
    alarm: Arc<Alarm>,
    /// The waker that the future gets: the alarm.
    waker: Waker,
    /// The future; `None` once it has ended.
    future: Option<Pin<Box<F>>>,
    /// Timer until a core is free, while the task waits for one.
    queued: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<F> Task<F> {
    /// Waits until the node assigns a core.
    fn poll_core(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        loop {
            let now = self.context.shared.now_nanos();
            let waited = self.queued.is_some();
            let begun = self.context.machine(|machine| {
                if machine.paused {
                    machine.parked.push(context.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(machine.cores.begin(now, waited))
            });
            let Err(free_at) = std::task::ready!(begun) else {
                self.queued = None;
                return Poll::Ready(());
            };
            let wait = super::clock::nap(Duration::from_nanos(free_at - now));
            let queued = self.queued.insert(Box::pin(wait));
            std::task::ready!(queued.as_mut().poll(context));
        }
    }
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let task = self.get_mut();
        std::task::ready!(task.poll_core(context));
        task.alarm.set(context.waker());
        let identity = task.context.clone();
        let polled = identity.enter(|| {
            let future = task.future.as_mut().expect("not polled after its end");
            let mut context = std::task::Context::from_waker(&task.waker);
            let output = std::task::ready!(future.as_mut().poll(&mut context));
            task.future = None;
            Poll::Ready(output)
        });
        let now = identity.shared.now_nanos();
        identity.machine(|machine| machine.cores.occupy(now));
        polled
    }
}

impl<F> Drop for Task<F> {
    fn drop(&mut self) {
        let future = self.future.take();
        self.context.enter(|| drop(future));
    }
}

/// Starts a task in the running world.
pub(crate) fn spawn_local<F>(
    context: Context,
    name: &'static str,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    context.trace("spawn", &[hash_bytes(0, name.as_bytes())]);
    let registry = context.clone();
    let alarm = Alarm::new(&context.shared.alarms);
    let handle = tokio::task::spawn_local(Task {
        context,
        waker: Waker::from(Arc::clone(&alarm)),
        alarm,
        future: Some(Box::pin(future)),
        queued: None,
    });
    let abort = handle.abort_handle();
    if registry.is_dead() {
        abort.abort();
    } else {
        registry.machine(|machine| {
            machine.tasks.retain(|task| !task.is_finished());
            machine.tasks.push(abort);
        });
    }
    JoinHandle::Task(handle)
}

/// Lets other tasks run first, a number of times that the seed decides; never returns on
/// a node that has crashed.
pub(crate) async fn interleave(context: &Context) {
    use rand::RngExt;
    let turns = context.shared.random().random_range(0..3);
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    if context.is_dead() {
        // The task will be aborted.
        std::future::pending::<()>().await;
    }
}

//! Tasks of the real environment: tokio's tasks, and threads with a tokio runtime each.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::JoinError;

/// Stack of a dedicated thread, in bytes: as large as a process's first thread usually
/// has. Only touched pages take memory.
const STACK_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(crate) enum JoinHandle<T> {
    Task(tokio::task::JoinHandle<T>),
    Thread {
        result: oneshot::Receiver<Result<T, JoinError>>,
        abort: Arc<Notify>,
    },
}

impl<T> JoinHandle<T> {
    pub(crate) fn abort(&self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Thread { abort, .. } => abort.notify_one(),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::Task(task) => task.is_finished(),
            Self::Thread { result, .. } => result.is_terminated() || !result.is_empty(),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Task(task) => Pin::new(task).poll(context).map_err(|error| {
                if error.is_panic() {
                    JoinError::panicked(&*error.into_panic())
                } else {
                    JoinError::Cancelled
                }
            }),
            Self::Thread { result, .. } => Pin::new(result)
                .poll(context)
                .map(|sent| sent.unwrap_or(Err(JoinError::Cancelled))),
        }
    }
}

pub(crate) fn spawn<F>(_name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    JoinHandle::Task(tokio::spawn(future))
}

pub(crate) fn spawn_dedicated<M, F>(name: &'static str, make_future: M) -> JoinHandle<F::Output>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    on_thread(name, move |aborted| {
        let runtime = built(tokio::runtime::Builder::new_current_thread())?;
        std::panic::catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(unless(aborted, async { Ok(make_future().await) }))
        }))
        .unwrap_or_else(|payload| Err(JoinError::panicked(&*payload)))
    })
}

pub(crate) fn spawn_executor<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // The single worker moves to another thread whenever a task blocks in place.
    on_thread(name, move |aborted| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(1)
            .thread_name(name)
            .thread_stack_size(STACK_BYTES);
        let runtime = built(builder)?;
        let task = JoinHandle::Task(runtime.spawn(future));
        runtime.block_on(unless(aborted, task))
    })
}

/// Runs `body` on a thread of its own; the handle can abort it.
fn on_thread<T: Send + 'static>(
    name: &'static str,
    body: impl FnOnce(&Notify) -> Result<T, JoinError> + Send + 'static,
) -> JoinHandle<T> {
    let (sender, result) = oneshot::channel();
    let abort = Arc::new(Notify::new());
    let aborted = Arc::clone(&abort);
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // The handle may have been dropped.
            let _ = sender.send(body(&aborted));
        })
        .expect("the operating system refuses another thread");
    JoinHandle::Thread { result, abort }
}

fn built(mut builder: tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, JoinError> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| JoinError::Panicked(format!("no runtime: {error}")))
}

async fn unless<T>(
    aborted: &Notify,
    work: impl Future<Output = Result<T, JoinError>>,
) -> Result<T, JoinError> {
    tokio::select! {
        biased;
        () = aborted.notified() => Err(JoinError::Cancelled),
        output = work => output,
    }
}

pub(crate) fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return JoinHandle::Task(tokio::task::spawn_blocking(work));
    }
    let (sender, result) = oneshot::channel();
    let _ = sender.send(Ok(work()));
    JoinHandle::Thread {
        result,
        abort: Arc::default(),
    }
}

/// Time that [`hand_over`] waits for the other tasks. One of them may need what the
/// caller holds, so the wait has an end.
const TURN_OF_OTHERS: Duration = Duration::from_millis(20);

pub(crate) fn hand_over() {
    let Ok(handle) = tokio::runtime::Handle::try_current() else {
        return;
    };
    if handle.runtime_flavor() != tokio::runtime::RuntimeFlavor::MultiThread {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    // A task that only another thread can run, after those that are ready.
    handle.spawn(async move { drop(sender) });
    tokio::task::block_in_place(|| {
        let _ = receiver.recv_timeout(TURN_OF_OTHERS);
    });
}

pub(crate) fn scatter<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..parts)
            .map(|part| scope.spawn(move || work(part)))
            .collect();
        let first = work(0);
        std::iter::once(first)
            .chain(others.into_iter().map(|part| match part.join() {
                Ok(result) => result,
                Err(payload) => std::panic::resume_unwind(payload),
            }))
            .collect()
    })
}

pub(crate) fn give_way() {
    std::thread::yield_now();
}

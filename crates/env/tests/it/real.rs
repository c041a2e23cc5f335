//! Tests of the real environment.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use coeval_env::{JoinError, fs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn tasks_give_their_result_or_the_reason_for_none() {
    run(async {
        assert_eq!(coeval_env::spawn("sum", async { 1 + 1 }).await, Ok(2));
        assert_eq!(
            coeval_env::spawn("panics", async { panic!("on purpose") }).await,
            Err::<(), _>(JoinError::Panicked("on purpose".into()))
        );
        let endless = coeval_env::spawn("endless", std::future::pending::<()>());
        endless.abort();
        assert_eq!(endless.await, Err(JoinError::Cancelled));
    });
}

#[test]
fn a_dedicated_thread_is_an_executor_of_its_own() {
    run(async {
        let thread = coeval_env::spawn_dedicated("dedicated", || async {
            let name = std::thread::current().name().map(str::to_owned);
            let inner = coeval_env::spawn("inner", async {
                std::thread::current().name().map(str::to_owned)
            });
            (name, inner.await.unwrap())
        });
        let (outer, inner) = thread.await.unwrap();
        assert_eq!(outer.as_deref(), Some("dedicated"));
        assert_eq!(inner, outer);

        let endless = coeval_env::spawn_dedicated("endless", std::future::pending::<()>);
        endless.abort();
        assert_eq!(endless.await, Err(JoinError::Cancelled));
        let panics = coeval_env::spawn_dedicated("panics", || async { panic!("on purpose") });
        assert_eq!(
            panics.await,
            Err::<(), _>(JoinError::Panicked("on purpose".into()))
        );
    });
}

#[test]
fn time_passes_and_runs_out() {
    run(async {
        let before = coeval_env::now();
        assert_eq!(
            coeval_env::timeout(Duration::from_millis(2), std::future::pending::<()>()).await,
            Err(coeval_env::Elapsed)
        );
        assert!(before.elapsed() >= Duration::from_millis(2));
        assert_eq!(
            coeval_env::timeout(Duration::ZERO, async { 5 }).await,
            Ok(5),
            "a future that is ready wins over time that has run out"
        );
        coeval_env::sleep_until(before).await;
        assert!(coeval_env::wall_clock() > Duration::from_secs(1_700_000_000));
    });
}

#[test]
fn streams_carry_bytes_both_ways() {
    run(async {
        let listener = coeval_env::listen("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let echo = coeval_env::spawn("echo", async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut read, mut write) = stream.into_split();
            let mut bytes = Vec::new();
            read.read_to_end(&mut bytes).await.unwrap();
            write.write_all(&bytes).await.unwrap();
        });
        let mut stream = coeval_env::connect(address).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        stream.write_all(b"coeval").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut back = String::new();
        stream.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "coeval");
        echo.await.unwrap();
    });
}

#[test]
fn files_keep_bytes_at_their_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    run(async {
        fs::create_dir_all(&path).await.unwrap();
        let (one, two) = (path.join("one"), path.join("two"));
        let file = fs::open(&one, fs::OpenOptions::CREATE_NEW).await.unwrap();
        file.allocate(8192).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 8192);
        file.write_at(b"xyz", 4096).await.unwrap();
        file.sync_data().await.unwrap();
        assert!(file.try_lock().await.unwrap());
        let again = fs::open(&one, fs::OpenOptions::WRITE).await.unwrap();
        assert!(!again.try_lock().await.unwrap(), "one holder at a time");
        drop(file);
        assert!(again.try_lock().await.unwrap());

        let mut bytes = [9; 4];
        again.read_exact_at(&mut bytes, 4095).await.unwrap();
        assert_eq!(&bytes, b"\0xyz");
        assert_eq!(again.read_at(&mut bytes, 8190).await.unwrap(), 2);
        assert!(again.read_exact_at(&mut bytes, 8190).await.is_err());

        fs::rename(&one, &two).await.unwrap();
        fs::sync_dir(&path).await.unwrap();
        assert!(!fs::exists(&one).await.unwrap());
        assert_eq!(fs::read_dir(&path).await.unwrap(), vec![two.clone()]);
        assert_eq!(fs::read(&two).await.unwrap().len(), 8192);
        fs::remove_file(&two).await.unwrap();
        assert!(fs::open(&two, fs::OpenOptions::READ).await.is_err());
    });
}

#[test]
fn random_numbers_differ() {
    assert_ne!(coeval_env::random_u64(), coeval_env::random_u64());
    let mut bytes = [0; 32];
    coeval_env::random_bytes(&mut bytes);
    assert_ne!(bytes, [0; 32]);
}

/// Tasks that are always ready would otherwise keep the executor from looking at its
/// sockets, but for once in some sixty turns.
#[test]
fn busy_tasks_let_sockets_go_first() {
    let turns = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&turns);
    let test = coeval_env::spawn_executor("busy", async move {
        let busy = |turns: Arc<AtomicU64>| {
            coeval_env::spawn(
                "busy",
                poll_fn(move |context| {
                    turns.fetch_add(1, Ordering::Relaxed);
                    coeval_env::wake_after_others(context);
                    Poll::<()>::Pending
                }),
            )
        };
        let all = [busy(Arc::clone(&counted)), busy(Arc::clone(&counted))];
        let listener = coeval_env::listen("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let connecting = coeval_env::connect(listener.local_addr().unwrap());
        let (writer, accepted) = tokio::join!(connecting, listener.accept());
        let (mut writer, mut reader) = (writer.unwrap(), accepted.unwrap().0);
        let (read, mut was_read) = tokio::sync::mpsc::unbounded_channel();
        let reading = coeval_env::spawn("reader", async move {
            while reader.read_u8().await.is_ok() {
                read.send(()).unwrap();
            }
        });
        let mut took = Vec::new();
        for _ in 0..41 {
            // By then the reader waits.
            for _ in 0..3 {
                coeval_env::yield_now().await;
            }
            let before = counted.load(Ordering::Relaxed);
            writer.write_u8(1).await.unwrap();
            was_read.recv().await.unwrap();
            took.push(counted.load(Ordering::Relaxed) - before);
        }
        all.iter().for_each(coeval_env::JoinHandle::abort);
        reading.abort();
        took.sort_unstable();
        took
    });
    let took = run(test).unwrap();
    assert!(
        took[20] <= 12,
        "turns of busy tasks before a read: {took:?}"
    );
}

/// In the middle of a poll an executor's other tasks get their turn.
#[test]
fn handing_over_lets_the_others_run() {
    let test = coeval_env::spawn_executor("hands over", async {
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        coeval_env::spawn("other", async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                coeval_env::yield_now().await;
            }
        });
        while turns.load(Ordering::Relaxed) == 0 {
            coeval_env::hand_over();
        }
        let before = turns.load(Ordering::Relaxed);
        while turns.load(Ordering::Relaxed) == before {
            coeval_env::hand_over();
        }
    });
    run(test).unwrap();
}

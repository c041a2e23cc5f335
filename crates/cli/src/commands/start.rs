//! `coeval start`: runs a server until a signal, or until the server fails.

use std::process::ExitCode;

use clap::ArgMatches;
use coeval_server::{Effective, RunningServer, Server, Settings, Storage};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use super::{fail, say, settings};
use crate::logging;
use crate::parent::Parent;

pub(super) fn start(matches: &ArgMatches) -> ExitCode {
    let ephemeral = matches.get_flag("ephemeral");
    let stops_with_parent = ephemeral || matches.get_flag("stop-with-parent");
    let parent = stops_with_parent.then(Parent::now).flatten();
    let mut settings = match settings(matches) {
        Ok(effective) => effective,
        Err(error) => return fail(&error),
    };
    if ephemeral && matches.get_one::<String>("listen").is_none() {
        settings.settings.listen = ([127, 0, 0, 1], 0).into();
    }
    if let Err(error) = logging::start(&settings.settings) {
        return fail(&error);
    }
    info!(
        version = env!("CARGO_PKG_VERSION"),
        profile = coeval_env::BUILD_PROFILE,
        "starting"
    );
    allow_open_files(&settings.settings);
    // Sessions and the log have threads of their own; this one waits for signals and runs
    // background tasks.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = runtime.block_on(serve(settings, ephemeral, parent));
    runtime.shutdown_background();
    code
}

async fn serve(settings: Effective, ephemeral: bool, parent: Option<Parent>) -> ExitCode {
    let (mut terminate, mut interrupt, mut hangup) = match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) {
        (Ok(terminate), Ok(interrupt), Ok(hangup)) => (terminate, interrupt, hangup),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => return fail(&error),
    };
    let storage = if ephemeral {
        Storage::Memory
    } else {
        Storage::Directory
    };
    let mut orphaned = std::pin::pin!(async {
        match parent {
            Some(parent) => match parent.gone().await {
                Ok(()) => {}
                Err(error) => {
                    error!(%error, "the starting process cannot be watched");
                    std::future::pending::<()>().await;
                }
            },
            None => std::future::pending().await,
        }
    });
    // An interrupted start leaves the same state as a crash: the next start recovers as
    // this one would have.
    let server = tokio::select! {
        biased;
        () = any(&mut terminate, &mut interrupt) => {
            info!("asked to stop before it was ready");
            return ExitCode::SUCCESS;
        }
        () = &mut orphaned => {
            info!("the starting process has ended before this one was ready");
            return ExitCode::SUCCESS;
        }
        started = Server::start(settings, storage) => match started {
            Ok(server) => server,
            Err(error) => return fail(&error),
        },
    };
    if ephemeral {
        say(&url(&server));
    }
    tokio::select! {
        biased;
        failure = server.failed() => {
            error!(failure, "the engine has stopped; what was acknowledged is safe");
            let stopping = server.stop();
            tokio::select! {
                biased;
                () = stopping => {}
                () = any(&mut terminate, &mut interrupt) => {}
            }
            return ExitCode::FAILURE;
        }
        () = any(&mut terminate, &mut interrupt) => info!("asked to stop"),
        () = &mut orphaned => info!("the starting process has ended"),
        () = reload(&server, &mut hangup) => {}
    }
    tokio::select! {
        biased;
        () = server.stop() => ExitCode::SUCCESS,
        () = any(&mut terminate, &mut interrupt) => {
            error!("asked twice: stopping at once");
            ExitCode::FAILURE
        }
    }
}

/// Raises the limit of open files to the maximum, because every session needs one, and
/// warns if that is too low.
fn allow_open_files(settings: &Settings) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Descriptors for the log, the listener, and sockets before login.
    const OTHERS: u64 = 256;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let wanted = settings.max_connections as u64 + OTHERS;
    if let Some(allowed) = allowed
        && allowed < wanted
    {
        warn!(
            allowed,
            wanted, "fewer files may be open (ulimit -n) than max_connections asks for"
        );
    }
}

async fn any(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Reloads the access rules and the TLS certificates at each SIGHUP, for ever.
async fn reload(server: &RunningServer, hangup: &mut Signal) {
    while hangup.recv().await.is_some() {
        match server.reload().await {
            Ok(()) => info!("the access rules and the TLS certificates were read again"),
            Err(error) => error!(%error, "the access rules and the certificates are unchanged"),
        }
    }
    std::future::pending().await
}

fn url(server: &RunningServer) -> String {
    format!("postgres://coeval@{}/coeval", server.address())
}

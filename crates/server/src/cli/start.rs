//! `coeval start`: runs a server until a signal, or its end.

use std::process::ExitCode;

use clap::ArgMatches;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use super::{fail, say, settings};
use crate::parent::Parent;
use crate::{RunningServer, Server, Settings, Storage, logging};

pub(super) fn start(matches: &ArgMatches) -> ExitCode {
    let ephemeral = matches.get_flag("ephemeral");
    let parent = if ephemeral { Parent::now() } else { None };
    let mut settings = match settings(matches) {
        Ok(effective) => effective.settings,
        Err(error) => return fail(&error),
    };
    if ephemeral && matches.get_one::<String>("listen").is_none() {
        settings.listen = ([127, 0, 0, 1], 0).into();
    }
    if let Err(error) = logging::start(&settings) {
        return fail(&error);
    }
    // Sessions and the log have threads of their own; this one waits for signals
    // and does the housekeeping.
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

async fn serve(settings: Settings, ephemeral: bool, parent: Option<Parent>) -> ExitCode {
    let (mut terminate, mut interrupt) = match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => return fail(&error),
    };
    let storage = if ephemeral {
        Storage::Memory
    } else {
        Storage::Directory
    };
    let server = match Server::start(settings, storage).await {
        Ok(server) => server,
        Err(error) => return fail(&error),
    };
    if ephemeral {
        say(&url(&server));
    }
    let orphaned = async {
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
    };
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
        () = orphaned => info!("the starting process has ended"),
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

async fn any(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn url(server: &RunningServer) -> String {
    format!("postgres://coeval@{}/coeval", server.address())
}

//! Files that were edited while no server looked at them: short forms of the corruption
//! command. And a server that is known to be bad, which serves what was damaged.

use coeval_types::planted::Bug;
use coeval_workload::faults::corruption::{self, Edit, FileKind, Options, Report};

async fn edited(options: &Options) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    let report = corruption::run(binary, folder.path(), options).await;
    report.unwrap_or_else(|error| panic!("{error}"))
}

const FLIPPED: Options = Options {
    seed: 3,
    trials: 2,
    edits: Edit::ALL.len(),
    verify: false,
    only: Some((FileKind::Checkpoint, Edit::Flip)),
    bug: None,
};

/// One edit of each kind of file.
#[tokio::test]
async fn is_refused_by_name_repaired_or_harmless() {
    let report = edited(&Options {
        trials: 1,
        edits: 1,
        only: None,
        ..FLIPPED
    });
    let report = report.await;
    assert_eq!(report.wrong, Vec::<String>::new());
    assert!(report.trials >= 10, "{report}");
}

#[tokio::test]
async fn of_a_checkpoint_is_refused() {
    let report = edited(&FLIPPED).await;
    assert_eq!(report.wrong, Vec::<String>::new());
    assert_eq!(report.refused(FileKind::Checkpoint), report.trials);
}

#[tokio::test]
async fn of_a_checkpoint_is_served_by_a_server_without_checksums_and_seen() {
    let report = edited(&Options {
        bug: Some(Bug::DropChecksum),
        trials: 4,
        ..FLIPPED
    });
    let report = report.await;
    assert!(!report.wrong.is_empty(), "{report}");
}

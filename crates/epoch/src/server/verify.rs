//! A look at the directory of a node that does not run: everything that a start would read is read,
//! with every checksum, and nothing is changed.

use std::path::Path;

use coeval_env::fs;

use super::home::{COUNCIL, EPOCHS, Founding, HomeError, look};
use crate::directory::Directory;
use crate::log::{Inspected, LogError, LogFiles};

/// What is in a node's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// What the node was founded with.
    pub founding: Founding,
    /// Its newest start.
    pub incarnation: u64,
    /// The council's log, where there is one.
    pub council: Option<coeval_council::Inspected>,
    /// The log of its copies, once it has been started, or was restored.
    pub epochs: Option<Inspected>,
}

/// Why a directory is not found sound.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// What the node is.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The log of its copies.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The council's log.
    #[error("the council's log: {0}")]
    Council(#[from] coeval_council::Error),
}

impl VerifyError {
    /// Whether a file is damaged; else nothing could be said of it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Home(error) => matches!(error, HomeError::Damaged { .. } | HomeError::Layout(_)),
            Self::Log(error) => matches!(error, LogError::Damaged { .. } | LogError::Checkpoint(_)),
            Self::Council(error) => matches!(
                error,
                coeval_council::Error::Restore(_)
                    | coeval_council::Error::Log(
                        coeval_council::LogError::Damaged { .. }
                            | coeval_council::LogError::Replay { .. }
                    )
            ),
        }
    }
}

/// Looks at a node's directory.
///
/// # Errors
/// The first thing for which a start would be refused, or why nothing can be said.
pub async fn verify(directory: &Path) -> Result<NodeReport, VerifyError> {
    let (founding, incarnation) = look(directory).await?;
    founding.check()?;
    let exists = async |folder: &str| {
        let path = directory.join(folder);
        fs::exists(&path).await.map_err(|error| HomeError::Io {
            doing: "look at",
            path,
            error,
        })
    };
    let mut council = None;
    let founders = founding.council();
    if founders.contains(&founding.node) && exists(COUNCIL).await? {
        let path = directory.join(COUNCIL);
        let cluster = founding.cluster.0;
        let settings =
            coeval_council::Settings::new(path.clone(), cluster, founding.node, founders);
        let mut machine = Directory::default();
        council = Some(coeval_council::inspect(&path, &settings, &mut machine).await?);
    }
    let mut epochs = None;
    if exists(EPOCHS).await? {
        epochs = Some(LogFiles::inspect(&directory.join(EPOCHS)).await?);
    }
    Ok(NodeReport {
        founding,
        incarnation,
        council,
        epochs,
    })
}

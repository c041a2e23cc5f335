//! The build that is measured: Cargo's profile `dist`, whole-program optimization included.
//!
//! Figures of any other build are of a program that no production server runs. So programs
//! that measure refuse to run when they, or the server they start, are built with another
//! profile, unless `--trial` says that the figures are not meant to be kept.
//!
//! ```text
//!   cargo run --profile dist -p coeval-workload --bin startup      measures
//!   cargo run -p coeval-workload --bin startup                     is refused
//!   cargo run -p coeval-workload --bin startup -- --trial          runs, and says what it is
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use coeval_env::BUILD_PROFILE;

use crate::server::{self, build_coeval};

/// The profile that figures are of.
pub const MEASURED: &str = "dist";

/// Whether another build than [`MEASURED`] may run, as an argument of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Build {
    /// Run although this is not a build with --profile dist; the figures are not to be kept.
    #[arg(long)]
    pub trial: bool,
}

/// Why a program or a server is not measured.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The program is built with another profile.
    #[error(
        "{program} is built with the profile {profile}; figures are of builds with --profile \
         {MEASURED} only, unless --trial is said"
    )]
    Profile {
        /// The program, as a message names it.
        program: String,
        /// Its profile, or what its `--version` printed instead.
        profile: String,
    },
    /// The server cannot be built.
    #[error(transparent)]
    Server(#[from] server::Error),
}

impl Build {
    /// Checks the profile of the running program.
    ///
    /// # Errors
    ///
    /// When the running program is built with another profile, and this is no trial.
    pub fn check(self) -> Result<(), Refused> {
        self.judge("this program", BUILD_PROFILE)
    }

    /// The server to measure: this binary, or one built from this workspace with the profile
    /// of the running program.
    ///
    /// # Errors
    ///
    /// When the running program or the binary is of another profile, and this is no trial;
    /// when there is no binary and none can be built.
    pub fn coeval(self, binary: Option<PathBuf>) -> Result<PathBuf, Refused> {
        self.check()?;
        match binary {
            Some(binary) => {
                self.judge(&binary.display().to_string(), &profile_of(&binary))?;
                Ok(binary)
            }
            None => Ok(build_coeval()?),
        }
    }

    fn judge(self, program: &str, profile: &str) -> Result<(), Refused> {
        if profile == MEASURED {
            return Ok(());
        }
        if self.trial {
            eprintln!("a trial: {program} is built with the profile {profile}, not {MEASURED}");
            return Ok(());
        }
        Err(Refused::Profile {
            program: program.to_owned(),
            profile: profile.to_owned(),
        })
    }
}

/// The profile that a binary `coeval` says it is built with: `dist` of `coeval 0.1.0 (dist)`.
fn profile_of(binary: &Path) -> String {
    let output = match Command::new(binary).arg("--version").output() {
        Ok(output) => output,
        Err(error) => return format!("that cannot be asked for ({error})"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.trim().lines().next().unwrap_or_default();
    let profile = said
        .strip_suffix(')')
        .and_then(|said| said.rsplit_once('('));
    profile.map_or_else(
        || format!("that it does not name ({said:?})"),
        |(_, profile)| profile.to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_profile_is_refused_unless_it_is_a_trial() {
        let measured = Build { trial: false };
        let trial = Build { trial: true };
        measured.judge("a", "dist").unwrap();
        trial.judge("a", "release").unwrap();
        let refused = measured.judge("a", "release").unwrap_err().to_string();
        assert!(refused.contains("a is built with the profile release"));
        assert!(refused.contains("--profile dist"));
    }

    #[test]
    fn a_binary_that_names_no_profile_is_refused() {
        let said = profile_of(Path::new("/bin/echo"));
        assert!(said.starts_with("that it does not name (\""), "{said}");
        assert!(!said.contains('\n'), "{said}");
        assert!(Build::default().coeval(Some("/bin/echo".into())).is_err());
    }
}

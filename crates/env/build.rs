//! Tells the crate the Cargo profile it is built with. Cargo itself only tells build scripts
//! whether a profile inherits `dev` or `release`; the profile's own name is in the path of
//! the folder for their output, `…/target/<profile>/build/<package>/out`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| std::env::var(name).unwrap_or_default();
    let output = variable("OUT_DIR");
    let profile = named_by(Path::new(&output)).unwrap_or_else(|| variable("PROFILE"));
    println!("cargo::rustc-env=COEVAL_BUILD_PROFILE={profile}");
}

fn named_by(output: &Path) -> Option<String> {
    let build = output
        .ancestors()
        .find(|folder| folder.ends_with("build"))?;
    Some(build.parent()?.file_name()?.to_str()?.to_owned())
}

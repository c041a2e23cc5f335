//! The workspace as the rules see it: texts and packages, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Input of the rules.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Text files by path relative to the root, with forward slashes.
    pub files: BTreeMap<String, String>,
    /// Paths of all files, texts or not.
    pub paths: BTreeSet<String>,
    /// Members of the workspace, according to cargo.
    pub packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Default)]
pub struct Package {
    /// Name of the package, prefix included.
    pub name: String,
    /// Folder of the package, relative to the root.
    pub folder: String,
    /// Root files of the package's targets, relative to the workspace.
    pub roots: Vec<String>,
    /// Dependencies of the package, third-party ones included.
    pub dependencies: Vec<Dependency>,
}

/// A dependency, from one line of a dependency table.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// Name of the package.
    pub name: String,
    /// Whether it is a dependency of tests, examples and benches only.
    pub development: bool,
}

/// Folders of the root without source: build output, data directories, git's own.
const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "data", "coeval-data"];

/// Further skipped folders, by path: what is built and found beside the main workspace.
const SKIPPED_PATHS: &[&str] = &[
    "agents/probe/target",
    "fuzz/target",
    "fuzz/artifacts",
    "fuzz/corpus",
];

/// Workspaces of their own, with the same rules: one needs another compiler, the other
/// links drivers of other databases.
const OTHER_WORKSPACES: &[&str] = &["agents/probe", "fuzz"];

/// Extensions of files that are read as text. Raw results under `bench/record` are data.
const TEXT_ENDINGS: &[&str] = &["rs", "toml", "md", "sh", "sql", "yml", "yaml", "txt", "tsv"];

impl Workspace {
    /// Reads the workspace at `root`.
    pub fn load(root: &Path) -> io::Result<Self> {
        let mut workspace = Self::default();
        workspace.read_folder(root, root)?;
        workspace.packages = packages(root, root)?;
        for other in OTHER_WORKSPACES {
            let packages = packages(root, &root.join(other))?;
            workspace.packages.extend(packages);
        }
        Ok(workspace)
    }

    fn read_folder(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let skipped = folder == root && SKIPPED_FOLDERS.contains(&name.as_str())
                    || SKIPPED_PATHS.contains(&relative(root, &path).as_str());
                if !skipped {
                    self.read_folder(root, &path)?;
                }
            } else if kind.is_file() {
                let relative = relative(root, &path);
                let is_record = relative.starts_with("bench/record/");
                let ending = path.extension().and_then(|ending| ending.to_str());
                let is_text = ending.is_some_and(|ending| TEXT_ENDINGS.contains(&ending))
                    || relative.starts_with(".ci/");
                if is_text
                    && !is_record
                    && let Ok(text) = fs::read_to_string(&path)
                {
                    self.files.insert(relative.clone(), text);
                }
                self.paths.insert(relative);
            }
        }
        Ok(())
    }

    /// Rust files with their texts.
    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Short name (folder below `crates/`) of the crate that a path belongs to.
    pub fn crate_of(path: &str) -> Option<&str> {
        path.strip_prefix("crates/")?.split('/').next()
    }
}

impl Package {
    /// Name of the package without the prefix that all crates of the project share.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("coeval-").unwrap_or(&self.name)
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .components()
        .map(|component| component.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

/// Queries cargo for the members of the workspace in `folder`. Needs neither the network
/// nor a lock file.
fn packages(root: &Path, folder: &Path) -> io::Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(folder)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    Ok(array(&metadata["packages"])
        .map(|package| package_of(root, package))
        .collect())
}

fn package_of(root: &Path, package: &Value) -> Package {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    Package {
        name: text(&package["name"]),
        folder: relative(root, manifest.parent().unwrap_or(root)),
        roots: array(&package["targets"])
            .map(|target| relative(root, Path::new(&text(&target["src_path"]))))
            .collect(),
        dependencies: array(&package["dependencies"])
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                development: dependency["kind"] == "dev",
            })
            .collect(),
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
impl Workspace {
    /// A workspace with these files, for a rule's tests.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self {
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect(),
            packages: Vec::new(),
        }
    }

    /// Adds a package, named by its folder below `crates/`.
    pub fn with_package(mut self, short_name: &str, dependencies: &[(&str, bool)]) -> Self {
        self.packages.push(Package {
            name: format!("coeval-{short_name}"),
            folder: format!("crates/{short_name}"),
            roots: vec![format!("crates/{short_name}/src/lib.rs")],
            dependencies: dependencies
                .iter()
                .map(|(name, development)| Dependency {
                    name: (*name).to_owned(),
                    development: *development,
                })
                .collect(),
        });
        self
    }
}

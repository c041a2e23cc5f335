//! Sources of settings: defaults, a file, the environment, flags.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{KEYS, Key, Settings};

/// The only section that a settings file may have.
const SECTION: &str = "cluster";

/// The source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// This settings file.
    File(PathBuf),
    /// This environment variable.
    Environment(String),
    /// This command line flag.
    Flag(String),
    /// The program that starts the server.
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
            Self::Environment(variable) => write!(formatter, "environment variable {variable}"),
            Self::Flag(flag) => write!(formatter, "flag {flag}"),
            Self::Program => formatter.write_str("program"),
        }
    }
}

/// An error in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value that its setting cannot have.
    #[error("setting {name}{}: {reason}", .origin.as_ref().map(|origin| format!(" ({origin})")).unwrap_or_default())]
    Value {
        /// The setting.
        name: &'static str,
        /// The source of the value, where it is known.
        origin: Option<Origin>,
        /// The cause.
        reason: String,
    },
    /// A name that no setting has.
    #[error("there is no setting {name} ({origin}){}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// The unknown name.
        name: String,
        /// The source where the name is.
        origin: Origin,
        /// The known name that is nearest to it.
        nearest: Option<String>,
    },
    /// A settings file that is not TOML.
    #[error("{} is not a settings file: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        reason: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name}?"),
        None => "; `coeval config` lists them all".to_owned(),
    }
}

/// Settings, and the source of each value.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The settings.
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
}

impl Effective {
    /// The defaults of all settings.
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            origins: BTreeMap::new(),
        }
    }

    /// Takes values from a settings file's text.
    pub fn file(&mut self, path: &Path, text: &str) -> Result<(), SettingsError> {
        let refuse = |reason: String| SettingsError::File {
            path: path.to_owned(),
            reason,
        };
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            refuse(error.to_string().trim_end().replace('\n', "\n  "))
        })?;
        for (name, value) in table {
            match value {
                // Names in the section [cluster] lack the prefix `cluster_`.
                toml::Value::Table(section) if name == SECTION => {
                    for (name, value) in section {
                        self.file_value(path, &format!("{SECTION}_{name}"), value)?;
                    }
                }
                value => self.file_value(path, &name, value)?,
            }
        }
        Ok(())
    }

    fn file_value(
        &mut self,
        path: &Path,
        name: &str,
        value: toml::Value,
    ) -> Result<(), SettingsError> {
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            _ => {
                let key = find(name, || Origin::File(path.to_owned()))?;
                return Err(SettingsError::Value {
                    name: key.name,
                    origin: Some(Origin::File(path.to_owned())),
                    reason: "a string, a whole number or true/false is needed".into(),
                });
            }
        };
        self.set(name, &text, Origin::File(path.to_owned()))
    }

    /// Takes values from environment variables whose names begin with `COEVAL_`.
    pub fn environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingsError> {
        for (variable, text) in variables {
            let Some(name) = variable.strip_prefix("COEVAL_") else {
                continue;
            };
            let name = name.to_lowercase();
            self.set(&name, &text, Origin::Environment(variable.clone()))?;
        }
        Ok(())
    }

    /// Takes one value from the given source.
    pub fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), SettingsError> {
        let key = find(name, || origin.clone())?;
        let is_said = match key.name {
            "cluster_found" => text == "true",
            "cluster_without" => !text.is_empty(),
            _ => false,
        };
        if is_said && matches!(origin, Origin::File(_)) {
            return Err(SettingsError::Value {
                name: key.name,
                origin: Some(origin),
                reason: "it is for a node's first start only; say it on the command line then"
                    .into(),
            });
        }
        (key.set)(&mut self.settings, text).map_err(|reason| SettingsError::Value {
            name: key.name,
            origin: Some(origin.clone()),
            reason,
        })?;
        self.origins.insert(key.name, origin);
        Ok(())
    }

    /// One setting's value, formatted for people.
    #[must_use]
    pub fn shown(&self, key: &Key) -> String {
        (key.get)(&self.settings)
    }

    /// The source of a setting's value.
    #[must_use]
    pub fn origin(&self, key: &Key) -> &Origin {
        self.origins.get(key.name).unwrap_or(&Origin::Default)
    }

    /// All settings as lines of a settings file, each with its help text and its source.
    #[must_use]
    pub fn show(&self) -> String {
        let mut shown = String::new();
        for key in KEYS {
            let origin = self.origin(key);
            let value = (key.get)(&self.settings);
            // A text that only looks like a number, as 007 does, stays a text.
            let is_number = value
                .parse::<i64>()
                .is_ok_and(|number| number.to_string() == value);
            let value = if is_number {
                value
            } else {
                toml::Value::String(value).to_string()
            };
            for line in wrap(key.help) {
                shown.push_str(&format!("# {line}\n"));
            }
            shown.push_str(&format!("{} = {value}  # {origin}\n\n", key.name));
        }
        shown.truncate(shown.trim_end().len());
        shown
    }
}

impl From<Settings> for Effective {
    /// Settings that the program has made itself.
    fn from(settings: Settings) -> Self {
        let defaults = Settings::default();
        let changed = KEYS
            .iter()
            .filter(|key| (key.get)(&settings) != (key.get)(&defaults));
        Self {
            origins: changed.map(|key| (key.name, Origin::Program)).collect(),
            settings,
        }
    }
}

impl Default for Effective {
    fn default() -> Self {
        Self::new()
    }
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines
            .last()
            .is_some_and(|line| line.len() + word.len() > 76)
        {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn find(name: &str, origin: impl FnOnce() -> Origin) -> Result<&'static Key, SettingsError> {
    KEYS.iter()
        .find(|key| key.name == name)
        .ok_or_else(|| SettingsError::Unknown {
            name: name.to_owned(),
            origin: origin(),
            nearest: nearest(name),
        })
}

/// The known name with the smallest edit distance, if that is small.
fn nearest(name: &str) -> Option<String> {
    let name = name.replace('-', "_").to_lowercase();
    KEYS.iter()
        .map(|key| (distance(&name, key.name), key.name))
        .min()
        .filter(|(distance, key)| *distance <= key.len() / 2)
        .map(|(_, key)| key.to_owned())
}

/// The edit distance: letters to insert, delete or replace (Levenshtein 1965).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, left) in left.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, &letter) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != left);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<Effective, SettingsError> {
        let mut effective = Effective::new();
        effective.file(Path::new("coeval.toml"), text)?;
        Ok(effective)
    }

    #[test]
    fn flags_before_environment_before_file_before_default() {
        let mut effective = file("max_connections = 7\nlog_level = \"warn\"\n").unwrap();
        let variables = [
            ("COEVAL_MAX_CONNECTIONS".to_owned(), "8".to_owned()),
            ("COEVAL_LISTEN".to_owned(), "localhost:7000".to_owned()),
            ("HOME".to_owned(), "/".to_owned()),
        ];
        effective.environment(variables).unwrap();
        let flag = Origin::Flag("--listen".into());
        effective.set("listen", "7001", flag).unwrap();
        assert_eq!(effective.settings.max_connections, 8);
        assert_eq!(effective.settings.log_level, "warn");
        assert_eq!(effective.settings.listen.to_string(), "127.0.0.1:7001");
        let shown = effective.show();
        assert!(shown.contains("listen = \"127.0.0.1:7001\"  # flag --listen"));
        assert!(shown.contains("log_level = \"warn\"  # file coeval.toml"));
        assert!(shown.contains("# environment variable COEVAL_MAX_CONNECTIONS"));
        assert!(shown.contains("worker_threads = 0  # default"));
    }

    #[test]
    fn a_cluster_has_a_section() {
        let text = "max_connections = 7\n[cluster]\nnode = 2\nmembers = \"2=127.0.0.1:7\"\n";
        let settings = file(text).unwrap().settings;
        assert_eq!((settings.max_connections, settings.cluster_node), (7, 2));
        assert_eq!(settings.cluster_members.0.len(), 1);
        let refused = file("[cluster]\nnod = 2").unwrap_err().to_string();
        assert!(refused.ends_with("did you mean cluster_node?"), "{refused}");
        assert!(file("[other]\nnode = 2").is_err());
        assert!(file("cluster = 7").is_err());
    }

    #[test]
    fn what_is_shown_can_be_read() {
        let shown = Effective::new().show();
        assert_eq!(file(&shown).unwrap().settings, Settings::default());
        // Found by the fuzz target `settings`.
        let odd = file("log_level = \"007\"").unwrap();
        assert_eq!(file(&odd.show()).unwrap().settings, odd.settings);
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let refused = file("max_conections = 7").unwrap_err().to_string();
        assert!(
            refused.ends_with("did you mean max_connections?"),
            "{refused}"
        );
        let refused = file("colour = \"red\"").unwrap_err().to_string();
        assert!(
            refused.ends_with("`coeval config` lists them all"),
            "{refused}"
        );
        let mut effective = Effective::new();
        let variable = [("COEVAL_DATADIR".to_owned(), "x".to_owned())];
        let refused = effective.environment(variable).unwrap_err().to_string();
        assert!(
            refused.contains("environment variable COEVAL_DATADIR"),
            "{refused}"
        );
        assert!(refused.ends_with("did you mean data_dir?"), "{refused}");
    }

    #[test]
    fn wrong_values_say_where_they_came_from() {
        let refused = file("max_connections = \"many\"").unwrap_err().to_string();
        assert!(
            refused.contains("max_connections (file coeval.toml)"),
            "{refused}"
        );
        let refused = file("max_connections = [1]").unwrap_err().to_string();
        assert!(refused.contains("a whole number"), "{refused}");
        let refused = file("max_connections 7").unwrap_err().to_string();
        assert!(
            refused.starts_with("coeval.toml is not a settings file"),
            "{refused}"
        );
    }
}

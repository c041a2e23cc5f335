//! Statements about the session: SET, RESET, SHOW, DISCARD, DEALLOCATE.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coeval_types::Timestamp;

use super::Session;
use super::identity::Identity;
use super::settings::{
    Settings, UNCOMMITTED, is_uncommitted, isolation, isolation_name, switch, time,
};
use super::transaction::Block;
use crate::error::{Error, Result, SqlState};
use crate::expression::{SessionSettings, ShownSetting};
use crate::instance::ClusterChange;
use crate::output::{Column, CommandTag, Notice, Severity, Sink};
use crate::statement::{Command, DiscardKind, Modes, SetCommand, SettingName};
use crate::value::{DataType, Value};

/// A text column of a result that comes from no table.
pub(super) fn text_column(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        column_type: DataType::Text.into(),
        table_oid: 0,
        attribute: 0,
    }
}

/// Columns of the result of SHOW.
pub(super) fn show_columns(name: &SettingName) -> Vec<Column> {
    match name {
        SettingName::One(name) => vec![text_column(Settings::canonical_name(name))],
        SettingName::All => vec![
            text_column("name"),
            text_column("setting"),
            text_column("description"),
        ],
    }
}

impl Session {
    /// Runs a statement about the session. Returns `None` for any other statement.
    pub(super) fn configure(
        &mut self,
        command: &Command,
        sink: &mut dyn Sink,
    ) -> Result<Option<CommandTag>> {
        let tag = match command {
            Command::Set(set) => {
                self.set(set, sink)?;
                "SET"
            }
            Command::Reset(name) => {
                self.enter_block();
                match name {
                    SettingName::All => Arc::make_mut(&mut self.settings).reset_all(),
                    SettingName::One(name) => {
                        Arc::make_mut(&mut self.settings).reset(name, false)?;
                    }
                }
                self.apply_settings();
                "RESET"
            }
            Command::SetCharacteristics(modes) => {
                self.set_characteristics(modes)?;
                "SET"
            }
            Command::Discard(kind) => {
                if *kind == DiscardKind::All {
                    if self.block == Block::Explicit {
                        return Err(Error::new(
                            SqlState::ACTIVE_SQL_TRANSACTION,
                            "DISCARD ALL cannot run inside a transaction block",
                        ));
                    }
                    self.enter_block();
                    let settings = Arc::make_mut(&mut self.settings);
                    settings.reset_all();
                    let login = settings.identity().login.clone();
                    settings.set_identity(Identity::new(login), false);
                    self.apply_settings();
                    self.forget_all();
                    self.close_all_cursors();
                }
                if matches!(kind, DiscardKind::All | DiscardKind::Temporary) {
                    self.discard_temporary();
                }
                if matches!(kind, DiscardKind::All | DiscardKind::Sequences) {
                    self.info.sequences.discard();
                }
                kind.tag()
            }
            Command::Deallocate(None) => {
                self.forget_all();
                "DEALLOCATE ALL"
            }
            Command::Deallocate(Some(name)) => {
                if !self.forget(name) {
                    return Err(Error::new(
                        SqlState::INVALID_SQL_STATEMENT_NAME,
                        format!("prepared statement \"{name}\" does not exist"),
                    ));
                }
                "DEALLOCATE"
            }
            Command::NoOperation(tag) => tag,
            _ => return Ok(None),
        };
        Ok(Some(CommandTag::new(tag)))
    }

    fn set(&mut self, set: &SetCommand, sink: &mut dyn Sink) -> Result<()> {
        if set.local && self.block != Block::Explicit {
            sink.notice(Notice::new(
                Severity::Warning,
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ));
        }
        self.enter_block();
        let value = set.values.as_ref().and_then(|values| values.first());
        let modes = match (set.name.as_str(), value) {
            ("transaction_isolation", Some(value)) => Modes {
                isolation: Some(isolation(value).ok_or_else(|| invalid(&set.name, value))?),
                uncommitted: is_uncommitted(value),
                ..Modes::default()
            },
            ("transaction_read_only", Some(value)) => Modes {
                read_only: Some(switch(value).ok_or_else(|| invalid(&set.name, value))?),
                ..Modes::default()
            },
            ("transaction_deferrable", Some(value)) => Modes {
                deferrable: Some(switch(value).ok_or_else(|| invalid(&set.name, value))?),
                ..Modes::default()
            },
            _ => {
                let settings = Arc::make_mut(&mut self.settings);
                match &set.values {
                    Some(values) => settings.set(&set.name, values, set.local)?,
                    None => settings.reset(&set.name, set.local)?,
                }
                self.apply_settings();
                return Ok(());
            }
        };
        self.change_modes(&modes)
    }

    fn set_characteristics(&mut self, modes: &Modes) -> Result<()> {
        self.enter_block();
        let settings = Arc::make_mut(&mut self.settings);
        let mut set = |name: &str, value: &str| settings.set(name, &[value.to_owned()], false);
        let on_off = |on| if on { "on" } else { "off" };
        if let Some(isolation) = modes.isolation {
            let name = match modes.uncommitted {
                true => UNCOMMITTED,
                false => isolation_name(isolation),
            };
            set("default_transaction_isolation", name)?;
        }
        if let Some(read_only) = modes.read_only {
            set("default_transaction_read_only", on_off(read_only))?;
        }
        if let Some(deferrable) = modes.deferrable {
            set("default_transaction_deferrable", on_off(deferrable))?;
        }
        self.apply_settings();
        Ok(())
    }

    /// Applies the settings to the state that statements execute with.
    pub(super) fn apply_settings(&mut self) {
        let identity = self.settings.identity();
        let (current, session) = (identity.current(), identity.session());
        if self.info.role != current.role || self.info.user != current.name {
            self.info.role = current.role;
            self.info.user = current.name.clone();
        }
        self.info.session_role = session.role;
        self.info.session_user = session.name.clone();
        if let Ok(name) = self.settings.show("application_name") {
            self.listed.rename(name);
        }
        let parsed = self.settings.parsed();
        self.info.style.time_zone = parsed.time_zone;
        self.info.style.date_order = parsed.date_order;
        self.info.style.date_format = parsed.date_format;
        self.info.style.interval_style = parsed.interval_style;
        self.info.style.bytes_as_escapes = parsed.bytes_as_escapes;
        let digits = parsed.extra_float_digits;
        self.info.style.rounded_floats = i8::try_from(digits).ok().filter(|_| digits < 1);
        self.info.work_memory = parsed.work_memory;
        self.info.lock_timeout = parsed.lock_timeout;
        self.info.search_path = parsed
            .search_path
            .iter()
            .map(|schema| match schema.as_str() {
                "$user" => self.info.user.clone(),
                other => other.into(),
            })
            .collect();
        if let Some(running) = &mut self.running {
            running.transaction.set_lock_timeout(parsed.lock_timeout);
        }
        self.update_transaction_clock();
    }

    /// Rows of the result of SHOW.
    pub(super) fn show(&self, name: &SettingName) -> Result<Vec<Vec<Value>>> {
        let viewer = self.viewer();
        Ok(match name {
            SettingName::One(name) => {
                let shown = viewer.show_setting(name);
                let superuser = self.settings.identity().current().superuser;
                let shown = shown.or_else(|unknown| {
                    let around = &self.info.around;
                    around.setting(name, superuser, unknown)
                });
                vec![vec![Value::text(shown?)]]
            }
            SettingName::All => viewer
                .all_settings()
                .into_iter()
                .map(|each| [each.name, each.value, each.about].map(Value::text).into())
                .collect(),
        })
    }

    /// Keeps the changes that a successful statement made to the settings.
    pub(super) fn take_over(&mut self, viewer: Viewer) {
        let changed = viewer.changed.into_inner();
        if let Some(settings) = changed.unwrap_or_else(PoisonError::into_inner) {
            self.settings = settings;
            self.apply_settings();
        }
    }

    /// Creates the view of the settings that a statement's functions use.
    pub(super) fn viewer(&self) -> Viewer {
        Viewer {
            settings: Arc::clone(&self.settings),
            changed: Mutex::default(),
            modes: Modes {
                isolation: Some(
                    self.modes
                        .isolation
                        .unwrap_or(self.settings.parsed().isolation),
                ),
                uncommitted: match self.modes.isolation {
                    Some(_) => self.modes.uncommitted,
                    None => self
                        .settings
                        .show("default_transaction_isolation")
                        .is_ok_and(is_uncommitted),
                },
                read_only: Some(self.is_read_only()),
                deferrable: Some(
                    self.modes
                        .deferrable
                        .unwrap_or(self.settings.parsed().deferrable),
                ),
            },
            changes: None,
            last_commit: self.last_commit(),
            awaited: None,
            warnings: Mutex::default(),
        }
    }
}

/// Most commits that a query waits for.
const MAX_AWAITED: usize = 100;

/// Most warnings that a query sends.
const MAX_WARNINGS: usize = 1000;

/// View of the settings for a statement's functions, including the transaction's modes,
/// which are shown as settings.
pub(super) struct Viewer {
    settings: Arc<Settings>,
    /// The settings as changed by the statement itself.
    changed: Mutex<Option<Arc<Settings>>>,
    modes: Modes,
    /// Cluster changes the statement has requested; `None` for a statement that may not.
    changes: Option<Mutex<Vec<ClusterChange>>>,
    /// The newest commit of the session.
    last_commit: Timestamp,
    /// Commits that the statement waits for; `None` for a statement that may not.
    awaited: Option<Mutex<Vec<AwaitedCommit>>>,
    /// Warnings of functions.
    warnings: Mutex<Vec<Notice>>,
}

/// A commit that a statement waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AwaitedCommit {
    pub(super) commit: Timestamp,
    /// How long, if not until the statement's own limit.
    pub(super) limit: Option<Duration>,
}

impl Viewer {
    /// Turns this into the view of a query, which may request cluster changes and wait for
    /// commits.
    pub(super) fn of_query(self) -> Self {
        Self {
            changes: Some(Mutex::default()),
            awaited: Some(Mutex::default()),
            ..self
        }
    }

    /// Takes the commits that the query waits for.
    pub(super) fn take_awaited(&mut self) -> Vec<AwaitedCommit> {
        let awaited = self.awaited.as_mut().map(Mutex::get_mut);
        let awaited = awaited.map(|awaited| awaited.unwrap_or_else(PoisonError::into_inner));
        awaited.map(std::mem::take).unwrap_or_default()
    }

    /// Takes the warnings of functions.
    pub(super) fn take_warnings(&self) -> Vec<Notice> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *warnings)
    }

    /// Takes the cluster changes that the query has requested.
    pub(super) fn take_changes(&mut self) -> Vec<ClusterChange> {
        let changes = self.changes.as_mut().map(Mutex::get_mut);
        let changes = changes.map(|changes| changes.unwrap_or_else(PoisonError::into_inner));
        changes.map(std::mem::take).unwrap_or_default()
    }

    fn of_transaction(&self, name: &str) -> Option<&'static str> {
        let on_off = |on: Option<bool>| if on == Some(true) { "on" } else { "off" };
        match name.to_ascii_lowercase().as_str() {
            "transaction_isolation" if self.modes.uncommitted => Some(UNCOMMITTED),
            "transaction_isolation" => {
                Some(isolation_name(self.modes.isolation.unwrap_or_default()))
            }
            "transaction_read_only" => Some(on_off(self.modes.read_only)),
            "transaction_deferrable" => Some(on_off(self.modes.deferrable)),
            _ => None,
        }
    }
}

impl Viewer {
    fn changed(&self) -> MutexGuard<'_, Option<Arc<Settings>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings including the statement's own changes.
    fn now(&self) -> Arc<Settings> {
        let changed = self.changed();
        Arc::clone(changed.as_ref().unwrap_or(&self.settings))
    }
}

impl SessionSettings for Viewer {
    fn show_setting(&self, name: &str) -> Result<String> {
        match self.of_transaction(name) {
            Some(value) => Ok(value.to_owned()),
            None => self.now().show(name).map(str::to_owned),
        }
    }

    fn set_setting(&self, name: &str, value: Option<&str>, local: bool) -> Result<String> {
        if self.of_transaction(name).is_some() {
            let feature = format!("set_config of {}", name.to_ascii_lowercase());
            return Err(Error::unsupported(feature).with_hint("Use SET TRANSACTION."));
        }
        let mut settings = self.now();
        let changed = Arc::make_mut(&mut settings);
        match value {
            Some(value) => changed.set(name, &[value.to_owned()], local)?,
            None => changed.reset(name, local)?,
        }
        let shown = changed.show(name).map(str::to_owned);
        *self.changed() = Some(settings);
        // A setting with a dot in its name ceases to exist when it is reset.
        Ok(shown.unwrap_or_default())
    }

    fn change_cluster(&self, change: ClusterChange) -> Result<()> {
        let Some(changes) = &self.changes else {
            return Err(Error::unsupported("a change of the cluster here")
                .with_hint("Call the function in a SELECT of its own."));
        };
        let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(change);
        Ok(())
    }

    fn last_commit(&self) -> Option<Timestamp> {
        Some(self.last_commit).filter(|commit| *commit != Timestamp::ZERO)
    }

    fn wait_for_commit(&self, commit: Timestamp, limit: Option<&str>) -> Result<()> {
        let time = |text: &str| {
            time(text).ok_or_else(|| {
                let message = format!("\"{text}\" is no time");
                Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("A time is written as in settings, such as 500ms or 2s.")
            })
        };
        let limit = limit.map(time).transpose()?;
        let Some(awaited) = &self.awaited else {
            return Err(Error::unsupported("a wait for a commit here")
                .with_hint("Call the function in a SELECT of its own."));
        };
        let mut awaited = awaited.lock().unwrap_or_else(PoisonError::into_inner);
        // One wait for the newest would do, but each has a limit of its own.
        if awaited.len() < MAX_AWAITED {
            awaited.push(AwaitedCommit { commit, limit });
            return Ok(());
        }
        Err(Error::unsupported("a wait for so many commits"))
    }

    fn warn(&self, warning: Notice) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MAX_WARNINGS {
            warnings.push(warning);
        }
    }

    fn all_settings(&self) -> Vec<ShownSetting> {
        let mut all = self.now().all();
        for each in &mut all {
            if let Some(value) = self.of_transaction(&each.name) {
                value.clone_into(&mut each.value);
            }
        }
        all
    }
}

fn invalid(name: &str, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

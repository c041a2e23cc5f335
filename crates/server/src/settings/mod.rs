//! The settings of a server: their names, types, defaults, sources and checks.
//!
//! A setting has one name everywhere, units included:
//!
//! ```text
//!   file          stop_grace_milliseconds = 1000
//!   environment   COEVAL_STOP_GRACE_MILLISECONDS=1000
//!   flag          --stop-grace-milliseconds 1000
//! ```
//!
//! A setting that begins with `cluster_` may be in the file's section `[cluster_settings]`,
//! without that prefix.
//!
//! Flags override the environment, which overrides the file, which overrides the default.
//! An unknown name is an error that suggests the nearest known one; the server ignores no
//! setting silently. [`Settings`] is the documentation: `--help`, the file and the
//! environment all read the table that the macro makes from it.

mod cluster_settings;
#[cfg(test)]
mod page;
mod source;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;

use coeval_env::Location;
use coeval_types::Protocol;

pub(crate) use cluster_settings::MAX_NODES;
pub use cluster_settings::{ClusterMembers, NodeNumbers, OptionalClusterId};
pub use source::{Effective, Origin, SettingsError};
pub use value::{LogDuration, LogFormat, MessageLevel, OptionalPath, SettingValue, Timeout};

/// One setting, as data.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The setting's name.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// Placeholder for a value in `--help`.
    pub placeholder: &'static str,
    /// Parses a value into the settings; the error is the reason.
    set: fn(&mut Settings, &str) -> Result<(), String>,
    /// Formats the value in the settings.
    get: fn(&Settings) -> String,
}

/// The address to listen at: the first one of the location that a setting names.
pub(crate) async fn address(
    name: &'static str,
    location: &Location,
) -> Result<SocketAddr, SettingsError> {
    let refused = |reason: String| SettingsError::Value {
        name,
        origin: None,
        reason,
    };
    let resolved = coeval_env::resolve(location).await.map_err(|error| {
        let host = location.host();
        refused(format!("the host name {host} cannot be looked up: {error}"))
    })?;
    let first = resolved.first().copied();
    first.ok_or_else(|| refused(format!("{location} has no address")))
}

macro_rules! settings {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty = $default:expr, $placeholder:literal;)*) => {
        /// All settings of a server.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $help])+ pub $name: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Every setting, in the order of [`Settings`].
        pub const KEYS: &[Key] = &[
            $(Key {
                name: stringify!($name),
                help: concat!($($help,)+),
                placeholder: $placeholder,
                set: |settings, text| {
                    settings.$name = <$type as SettingValue>::parse(text)?;
                    Ok(())
                },
                get: |settings| SettingValue::show(&settings.$name),
            },)*
        ];
    };
}

settings! {
    /// Where the database's files are. Made if it does not exist.
    data_dir: PathBuf = PathBuf::from("coeval-data"), "DIR";
    /// Let the group of the data directory read it, as for backups by another user: modes
    /// 0750 and 0640 instead of 0700 and 0600.
    allow_group_access: bool = false, "BOOL";
    /// The address to listen at; of a name, the first address that it has at the start.
    /// Port 0 takes a free one. Other machines are let in with TLS and a password, or as the
    /// host-based access file says.
    listen: Location = Location::from(([127, 0, 0, 1], 5433)), "ADDRESS";
    /// A host-based access file: who may connect from where, in the format of
    /// pg_hba.conf. Empty for the rules that hold without one.
    hba_file: OptionalPath = OptionalPath(None), "FILE";
    /// The TLS certificate, in PEM, with its chain. Empty for no TLS.
    tls_certificate_file: OptionalPath = OptionalPath(None), "FILE";
    /// The private key of the TLS certificate, in PEM.
    tls_key_file: OptionalPath = OptionalPath(None), "FILE";
    /// Let every client in from everywhere, without a password, where no host-based
    /// access file says otherwise.
    insecure: bool = false, "BOOL";
    /// The address of metrics (/metrics) and health (/health) over HTTP, on this machine,
    /// or off. A client can change nothing there.
    admin_listen: Option<Location> = None, "ADDRESS";
    /// The most sessions at once; further ones are refused with 53300.
    max_connections: usize = 500, "N";
    /// How many sessions of max_connections are reserved for superusers, so that one of
    /// them can log in when all others are taken.
    superuser_reserved_connections: usize = 3, "N";
    /// How many transactions work at once; further ones wait their turn before they
    /// begin. One that rests, for a lock or for its client, gives its place away after
    /// a few milliseconds. 0 takes 64 for each worker thread.
    max_running_transactions: usize = 0, "N";
    /// How many threads run sessions; 0 takes one for each core.
    worker_threads: usize = 0, "N";
    /// The longest message taken from a client, in bytes: a statement, or the
    /// values for one.
    max_message_bytes: usize = 64 << 20, "BYTES";
    /// The longest text of a statement, or of several sent as one, in bytes.
    max_statement_bytes: usize = 16 << 20, "BYTES";
    /// The most parameters of one statement.
    max_parameters: usize = 65_535, "N";
    /// The most statements a session keeps prepared, and the most portals it keeps
    /// open, by name.
    max_prepared_statements: usize = 10_000, "N";
    /// How much memory a session keeps in prepared statements, portals, cursors, temporary tables, cached plans and
    /// compiled regular expressions, in bytes; further ones are refused with 53200. All sessions together keep at most a quarter
    /// of the memory limit.
    max_session_memory_bytes: u64 = 64 << 20, "BYTES";
    /// How much memory a statement may take for sorting, grouping, hashing and collecting rows,
    /// in kilobytes (1024 bytes): what sessions begin with as `work_mem`, unless their role or
    /// the database has another.
    work_mem_kilobytes: u64 = 64 << 10, "KB";
    /// The largest result of one statement, in bytes as sent; 0 for no limit.
    max_result_bytes: u64 = 0, "BYTES";
    /// How much of a result is produced ahead of what the client has taken, in
    /// bytes.
    output_buffer_bytes: usize = 64 << 10, "BYTES";
    /// How long a statement may take, as in `5s` or `100ms`; 0 for ever. Sessions may
    /// set their own, as for the four that follow.
    statement_timeout: Timeout = Timeout::NONE, "TIME";
    /// How long a statement may wait for one lock; 0 for ever.
    lock_timeout: Timeout = Timeout::NONE, "TIME";
    /// How long a transaction may be open; 0 for ever. Its session ends with it.
    transaction_timeout: Timeout = Timeout::NONE, "TIME";
    /// How long a client may be silent while its transaction is open; 0 for ever. Its
    /// session ends with it.
    idle_in_transaction_session_timeout: Timeout = Timeout::NONE, "TIME";
    /// How long a client may be silent without an open transaction before its session
    /// ends; 0 for ever.
    idle_session_timeout: Timeout = Timeout::NONE, "TIME";
    /// How much memory the database may take, in megabytes (1048576 bytes); 0 takes
    /// three quarters of what the machine or the container has. At the limit growth is
    /// refused with 53200, and deletes go on.
    memory_limit_megabytes: u64 = 0, "MB";
    /// How much of the memory limit old row versions may take, in per cent, before the
    /// oldest snapshot that needs them is ended with 72000.
    old_versions_percent: u64 = 25, "PERCENT";
    /// Memory that the server takes from the kernel at the start, in megabytes, so that no
    /// write waits for new pages later; at most three quarters of the limit, and of the free
    /// memory. Memory that was used and is free again is given back all the same. The start
    /// takes longer: on virtual machines a second for some hundred megabytes.
    memory_preallocated_megabytes: u64 = 0, "MB";
    /// The size of a file of the log, in bytes: a multiple of 4096.
    log_segment_bytes: u64 = 16 << 20, "BYTES";
    /// How much of the log may be on its way to the disk, in bytes: a power of two.
    log_buffer_bytes: u64 = 16 << 20, "BYTES";
    /// A checkpoint is taken whenever a start would have to replay this much log, in
    /// bytes, so that the log before it can go; 0 for only on request.
    checkpoint_log_bytes: u64 = 512 << 20, "BYTES";
    /// How fast a checkpoint is written at most, in megabytes per second, so that it
    /// disturbs little; 0 for no limit. A checkpoint on request has no limit.
    checkpoint_megabytes_per_second: u64 = 64, "MB";
    /// How much log to keep although no start needs it, in bytes: for restoring to
    /// a point in time, and for standbys that lag.
    log_keep_bytes: u64 = 0, "BYTES";
    /// How much of the disk to set aside, in bytes, at most a sixteenth of it: when the disk is
    /// full DELETE, TRUNCATE, DROP and checkpoints go on with it, until there is room again.
    /// 0 sets nothing aside.
    disk_reserve_bytes: u64 = 64 << 20, "BYTES";
    /// How many threads load the checkpoint and replay the log at a start; 0 takes
    /// one for each core.
    recovery_threads: usize = 0, "N";
    /// For how many hours at least `txid_status()` knows the outcome of a transaction
    /// that has asked for its number.
    transaction_outcome_retention_hours: u64 = 24, "HOURS";
    /// How many recent writes each range of a table remembers for SERIALIZABLE scans to
    /// be checked against; a scan that finds more fails with 40001. There are never fewer
    /// than eight for each worker.
    range_slots: usize = 1024, "N";
    /// How long a client may take to log in, in milliseconds.
    startup_timeout_milliseconds: u64 = 60_000, "MS";
    /// How long a stopping server lets running statements finish before it cancels
    /// them, in milliseconds.
    stop_grace_milliseconds: u64 = 1_000, "MS";
    /// Which node of a cluster this is: a number from 1 to 1000; 0 for a server without a
    /// cluster. The settings that begin with cluster_ are the same on all nodes of a
    /// cluster, but for this one, cluster_listen and the files.
    cluster_node: u64 = 0, "N";
    /// The cluster's id: 32 hexadecimal digits, generated once for it, as by `openssl
    /// rand -hex 16`.
    cluster_id: OptionalClusterId = OptionalClusterId(None), "ID";
    /// Where the nodes of the cluster reach each other, this one included, as in
    /// `1=10.0.0.1:7001,2=10.0.0.2:7001,3=10.0.0.3:7001`, or with names of hosts, as in
    /// `1=db1:7001,2=db2:7001,3=db3:7001`: those are looked up at each attempt to connect.
    /// The nodes named when a cluster starts for the first time found it.
    cluster_members: ClusterMembers = ClusterMembers::NONE, "MEMBERS";
    /// The address to listen at for other nodes; off for this node's own in
    /// cluster_members. Other machines are let in with TLS only, and with a certificate
    /// of the cluster's authority.
    cluster_listen: Option<Location> = None, "ADDRESS";
    /// With a data directory that is empty, found the cluster, together with the others
    /// that cluster_members names: once all of them have said that they hold no log of
    /// it. The administrator says it once, at each founder's
    /// first start, so it cannot be in the file: a node whose data was lost would take
    /// part as if there had been none.
    cluster_found: bool = false, "BOOL";
    /// Founders that cluster_found does not wait for, as in `3` or `3,4`. The node takes
    /// part without their word that they hold no log of the cluster: the administrator
    /// gives it. Like cluster_found it cannot be in the file.
    cluster_without: NodeNumbers = NodeNumbers::NONE, "NODES";
    /// The highest cluster version that this node lets its cluster rise to; 0 for the
    /// newest that it reads. With a lower one the build before can still take over the
    /// cluster's directories.
    cluster_version_limit: u32 = 0, "N";
    /// The protocol by which the nodes of the cluster keep their copies: `leader`. It stands in the
    /// data directory from the founding on, and in the handshake of nodes: a directory or a node of
    /// another one is refused. A cluster of the protocol `epoch` keeps values under keys and speaks no
    /// SQL; `coeval epoch found` founds it, and `coeval epoch start` runs its nodes. With
    /// `epoch` here the start is refused, and says so.
    cluster_protocol: Protocol = Protocol::Leader, "PROTOCOL";
    /// With a data directory that is empty, join a cluster that exists already.
    cluster_join: bool = false, "BOOL";
    /// The cluster's name in the certificates of its nodes: that of node 3 of shop is
    /// node-3.shop.
    cluster_tls_name: String = String::new(), "NAME";
    /// This node's certificate for other nodes, in PEM, with its chain; `coeval cert`
    /// makes it. Empty for no TLS between nodes.
    cluster_tls_certificate_file: OptionalPath = OptionalPath(None), "FILE";
    /// The private key of this node's certificate, in PEM.
    cluster_tls_key_file: OptionalPath = OptionalPath(None), "FILE";
    /// Certificates of the cluster's authority, which signs every node's, in PEM.
    cluster_tls_authority_file: OptionalPath = OptionalPath(None), "FILE";
    /// How long the other nodes wait without a sign of the leader before they elect
    /// another one, in milliseconds; they take up to twice as long. The same on all
    /// nodes.
    cluster_election_timeout_milliseconds: u64 = 500, "MS";
    /// A follower whose answer no commit waits for, because enough others answer, is sent
    /// the log at most this often, in milliseconds, or every fifth of the election
    /// timeout if that is less. That leaves more of the processors to clients; such a
    /// follower may lag by this much. 0 sends it every group of commits at once.
    cluster_batch_interval_milliseconds: u64 = 4, "MS";
    /// How long a statement waits for a leader when there is none, in milliseconds,
    /// before it fails with 57P03.
    cluster_wait_milliseconds: u64 = 10_000, "MS";
    /// How long a follower's process may not have run, in milliseconds, before reads with
    /// coeval.read_from = any wait until the node has heard from the leader and caught up; 0
    /// for never. Shorter absences than half as much again may go unnoticed.
    any_read_away_milliseconds: u64 = 20, "MS";
    /// How long such a read waits at most, in milliseconds, before it is answered from the
    /// state that the node has.
    any_read_hold_milliseconds: u64 = 200, "MS";
    /// Estimate Γ, by how much reads of followers are too old: the leader writes a few rows of
    /// a table of its own all the time, and each follower reads them (coeval.gamma). Costs ten
    /// small commits a second, and as many reads on each node. The same on all nodes.
    gamma_probe: bool = false, "BOOL";
    /// Interval between two operations of that probe, in milliseconds.
    gamma_probe_interval_milliseconds: u64 = 100, "MS";
    /// Reads of the probe that are too old by more than this, in milliseconds, count as
    /// violations.
    gamma_threshold_milliseconds: u64 = 5, "MS";
    /// Statements that take at least this long are logged, without their values; 0
    /// logs all, -1 none. Sessions of superusers can set it too.
    log_min_duration_statement: LogDuration = LogDuration::NEVER, "TIME";
    /// Statements that fail with an error of at least this level are logged, with its
    /// message and SQLSTATE and without their values: PostgreSQL's levels, of which error
    /// and those below it mean every failure, fatal those that end the session, panic
    /// none. Sessions of superusers can set it too.
    log_min_error_statement: MessageLevel = MessageLevel::ERROR, "LEVEL";
    /// What to log: error, warn, info, debug or trace, also by module, as
    /// in `info,coeval_server=debug`.
    log_level: String = "info".to_owned(), "LEVEL";
    /// How log lines look: text, json, or auto for text.
    log_format: LogFormat = LogFormat::Auto, "FORMAT";
}

impl Settings {
    /// Number of threads that run sessions.
    #[must_use]
    pub fn workers(&self) -> usize {
        match self.worker_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }

    /// Number of transactions that run at once.
    #[must_use]
    pub fn running_transactions(&self) -> usize {
        /// Enough transactions that every core finds work while others wait for their
        /// clients' next statements.
        const FOR_EACH_WORKER: usize = 64;
        match self.max_running_transactions {
            0 => FOR_EACH_WORKER * self.workers(),
            count => count,
        }
    }

    /// The settings that sessions start with, by their names in SQL.
    pub(crate) fn of_sessions(&self) -> Vec<(String, String)> {
        [
            ("statement_timeout", self.statement_timeout),
            ("lock_timeout", self.lock_timeout),
            ("transaction_timeout", self.transaction_timeout),
            (
                "idle_in_transaction_session_timeout",
                self.idle_in_transaction_session_timeout,
            ),
            ("idle_session_timeout", self.idle_session_timeout),
        ]
        .into_iter()
        .filter(|(_, timeout)| *timeout != Timeout::NONE)
        .map(|(name, timeout)| (name, timeout.show()))
        .chain(
            (self.work_mem_kilobytes != Self::default().work_mem_kilobytes)
                .then(|| ("work_mem", format!("{}kB", self.work_mem_kilobytes))),
        )
        .chain([
            (
                "log_min_duration_statement",
                self.log_min_duration_statement.show(),
            ),
            (
                "log_min_error_statement",
                self.log_min_error_statement.show(),
            ),
        ])
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Checks conditions that a single value cannot show.
    pub fn check(&self) -> Result<(), SettingsError> {
        let refuse = |name: &'static str, reason: String| {
            Err(SettingsError::Value {
                name,
                origin: None,
                reason,
            })
        };
        let tls = match (&self.tls_certificate_file.0, &self.tls_key_file.0) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            (Some(_), None) => {
                let reason = "a certificate needs its key".into();
                return refuse("tls_key_file", reason);
            }
            (None, Some(_)) => {
                let reason = "a key needs its certificate".into();
                return refuse("tls_certificate_file", reason);
            }
        };
        let guarded = tls || self.hba_file.0.is_some() || self.insecure;
        if !self.listen.is_loopback() && !guarded {
            let reason = format!(
                "{} can be reached from other machines, which are let in through TLS only; \
                 name tls_certificate_file and tls_key_file, or an hba_file with rules of your \
                 own, or say --insecure",
                self.listen.host(),
            );
            return refuse("listen", reason);
        }
        if let Some(location) = &self.admin_listen
            && !location.is_loopback()
        {
            let reason = format!(
                "{} can be reached from other machines, and it answers every client; listen at \
                 a loopback address such as 127.0.0.1:{}",
                location.host(),
                location.port(),
            );
            return refuse("admin_listen", reason);
        }
        if !(1..=100_000).contains(&self.max_connections) {
            return refuse("max_connections", "must be from 1 to 100000".into());
        }
        if self.superuser_reserved_connections >= self.max_connections {
            let reason = format!(
                "must be less than max_connections, which is {}",
                self.max_connections
            );
            return refuse("superuser_reserved_connections", reason);
        }
        if !(64 << 10..=1 << 30).contains(&self.max_statement_bytes) {
            let reason = "must be from 65536 to 1073741824".into();
            return refuse("max_statement_bytes", reason);
        }
        if !(64..=1 << 30).contains(&self.work_mem_kilobytes) {
            let reason = "must be from 64 to 1073741824".into();
            return refuse("work_mem_kilobytes", reason);
        }
        if self.memory_limit_megabytes != 0
            && !(64..=1 << 30).contains(&self.memory_limit_megabytes)
        {
            let reason = "must be 0, or from 64 to 1073741824".into();
            return refuse("memory_limit_megabytes", reason);
        }
        if self.memory_preallocated_megabytes > 1 << 30 {
            let reason = "must be from 0 to 1073741824".into();
            return refuse("memory_preallocated_megabytes", reason);
        }
        if !(1..=100).contains(&self.old_versions_percent) {
            return refuse("old_versions_percent", "must be from 1 to 100".into());
        }
        if self.max_parameters > 65_535 {
            return refuse("max_parameters", "must be from 0 to 65535".into());
        }
        if !(1..=1_000_000).contains(&self.max_prepared_statements) {
            let reason = "must be from 1 to 1000000".into();
            return refuse("max_prepared_statements", reason);
        }
        if !(64 << 10..=1 << 40).contains(&self.max_session_memory_bytes) {
            let reason = "must be from 65536 to 1099511627776".into();
            return refuse("max_session_memory_bytes", reason);
        }
        if self.worker_threads > 1024 {
            return refuse("worker_threads", "must be from 0 to 1024".into());
        }
        if !(64 << 10..=1 << 30).contains(&self.max_message_bytes) {
            let reason = "must be from 65536 to 1073741824".into();
            return refuse("max_message_bytes", reason);
        }
        if !(1 << 10..=1 << 30).contains(&self.output_buffer_bytes) {
            let reason = "must be from 1024 to 1073741824".into();
            return refuse("output_buffer_bytes", reason);
        }
        let segment = self.log_segment_bytes;
        if !segment.is_multiple_of(4096) || !(8192..=1 << 40).contains(&segment) {
            let reason = "must be a multiple of 4096 from 8192 to 1099511627776".into();
            return refuse("log_segment_bytes", reason);
        }
        // The buffer must hold four of the frames that large transactions are written in.
        let buffer = self.log_buffer_bytes;
        if !buffer.is_power_of_two() || !(8 << 20..=1 << 40).contains(&buffer) {
            let reason = "must be a power of two from 8388608 to 1099511627776".into();
            return refuse("log_buffer_bytes", reason);
        }
        if self.recovery_threads > 1024 {
            return refuse("recovery_threads", "must be from 0 to 1024".into());
        }
        if !(1..=87_600).contains(&self.transaction_outcome_retention_hours) {
            let reason = "must be from 1 to 87600".into();
            return refuse("transaction_outcome_retention_hours", reason);
        }
        if !(64..=1 << 20).contains(&self.range_slots) {
            return refuse("range_slots", "must be from 64 to 1048576".into());
        }
        self.check_cluster()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_allowed() {
        Settings::default().check().unwrap();
    }

    #[test]
    fn every_setting_reads_back_what_it_shows() {
        let defaults = Settings::default();
        for key in KEYS {
            let mut settings = Settings::default();
            let shown = (key.get)(&defaults);
            (key.set)(&mut settings, &shown).unwrap();
            assert_eq!(settings, defaults, "{}", key.name);
            assert!(key.help.trim().ends_with('.'), "{}", key.name);
        }
    }

    #[test]
    fn values_that_the_engine_cannot_work_with_are_refused_by_name() {
        for (name, wrong, right) in [
            ("log_segment_bytes", "4096", "8192"),
            ("log_segment_bytes", "10000", "65536"),
            ("log_buffer_bytes", "4194304", "8388608"),
            ("log_buffer_bytes", "10000000", "16777216"),
            ("recovery_threads", "2000", "3"),
            ("transaction_outcome_retention_hours", "0", "1"),
            ("transaction_outcome_retention_hours", "87601", "87600"),
            ("range_slots", "0", "64"),
            ("range_slots", "63", "1024"),
            ("range_slots", "99999999", "1048576"),
        ] {
            let key = KEYS.iter().find(|key| key.name == name).unwrap();
            let mut settings = Settings::default();
            (key.set)(&mut settings, right).unwrap();
            settings.check().unwrap();
            (key.set)(&mut settings, wrong).unwrap();
            let error = settings.check().unwrap_err();
            assert!(
                matches!(error, SettingsError::Value { name: refused, .. } if refused == name),
                "{name} = {wrong}: {error}"
            );
        }
    }

    #[test]
    fn a_name_to_listen_at_is_looked_up_or_named_with_its_setting() {
        let world = coeval_env::sim::World::new(1);
        world.name("db1", &[[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]);
        let node = world.node();
        let look_up = |text: &str| {
            let location: Location = text.parse().unwrap();
            let ran = world.run(
                node,
                async move { address("admin_listen", &location).await },
            );
            ran.unwrap()
        };
        for (text, first) in [
            ("db1:7", "10.0.0.1:7"),
            ("localhost:7", "127.0.0.1:7"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(look_up(text).unwrap().to_string(), first);
        }
        let refused = look_up("db2:7").unwrap_err().to_string();
        assert!(refused.contains("admin_listen"), "{refused}");
        assert!(
            refused.contains("the host name db2 cannot be looked up"),
            "{refused}"
        );
    }

    #[test]
    fn nothing_listens_to_others_unguarded() {
        let path = || OptionalPath(Some(PathBuf::from("file")));
        for (address, local) in [
            ("127.0.0.1:5433", true),
            ("127.0.0.9:0", true),
            ("[::1]:5433", true),
            ("localhost:5433", true),
            ("db1.example.com:5433", false),
            ("0.0.0.0:5433", false),
            ("192.168.0.1:5433", false),
        ] {
            let settings = Settings {
                listen: address.parse().unwrap(),
                ..Settings::default()
            };
            let checked = settings.check();
            assert_eq!(checked.is_ok(), local, "{address}");
            if let Err(refused) = checked {
                assert!(refused.to_string().contains("say --insecure"));
            }
            for guarded in [
                Settings {
                    insecure: true,
                    ..settings.clone()
                },
                Settings {
                    hba_file: path(),
                    ..settings.clone()
                },
                Settings {
                    tls_certificate_file: path(),
                    tls_key_file: path(),
                    ..settings.clone()
                },
            ] {
                guarded.check().unwrap();
            }
            let without_key = Settings {
                tls_certificate_file: path(),
                ..settings.clone()
            };
            let refused = without_key.check().unwrap_err();
            assert!(refused.to_string().contains("tls_key_file"));
        }
    }
}

//! The settings of a node of a cluster, and their checks.

use std::collections::{BTreeMap, BTreeSet};

use coeval_env::Location;
use coeval_leader::node::NEWEST_VERSION;
use coeval_peers::ClusterId;
use coeval_types::Protocol;

use super::{SettingValue, Settings, SettingsError};

/// The highest number of a node: a session's number contains it.
pub(crate) const MAX_NODES: u64 = 1000;

/// The id of the cluster; empty for a server without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionalClusterId(pub Option<ClusterId>);

impl SettingValue for OptionalClusterId {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self(None)),
            digits => digits
                .parse()
                .map(|id| Self(Some(id)))
                .map_err(|_| format!("{digits:?} is not 32 hexadecimal digits")),
        }
    }

    fn show(&self) -> String {
        self.0.map_or_else(String::new, |id| id.to_string())
    }
}

/// Where each node of the cluster listens for the others; empty for a server without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMembers(pub BTreeMap<u64, Location>);

impl ClusterMembers {
    /// No members.
    pub const NONE: Self = Self(BTreeMap::new());
}

impl SettingValue for ClusterMembers {
    /// Parses `1=127.0.0.1:7001,2=db2.example.com:7001`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut members = BTreeMap::new();
        for part in text.split(',').map(str::trim) {
            if part.is_empty() && text.trim().is_empty() {
                break;
            }
            let form =
                || format!("{part:?} is not a node, its host and its port, as 1=127.0.0.1:7001");
            let (node, address) = part.split_once('=').ok_or_else(form)?;
            let node: u64 = node.trim().parse().map_err(|_| form())?;
            let location = address.trim().parse().map_err(|_| form())?;
            if !(1..=MAX_NODES).contains(&node) {
                return Err(format!("node {node} is not from 1 to {MAX_NODES}"));
            }
            if members.insert(node, location).is_some() {
                return Err(format!("node {node} is named twice"));
            }
        }
        Ok(Self(members))
    }

    fn show(&self) -> String {
        let members = self.0.iter();
        let parts: Vec<String> = members
            .map(|(node, location)| format!("{node}={location}"))
            .collect();
        parts.join(",")
    }
}

/// Numbers of nodes; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNumbers(pub BTreeSet<u64>);

impl NodeNumbers {
    /// No nodes.
    pub const NONE: Self = Self(BTreeSet::new());
}

impl SettingValue for NodeNumbers {
    /// Parses `3,4`.
    fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        let parts = parts.filter(|_| !text.trim().is_empty());
        let number = |part: &str| match part.parse() {
            Ok(node) if (1..=MAX_NODES).contains(&node) => Ok(node),
            _ => Err(format!(
                "{part:?} is not a node's number, from 1 to {MAX_NODES}"
            )),
        };
        parts.map(number).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        numbers.join(",")
    }
}

impl Settings {
    /// Whether this server is a node of a cluster.
    #[must_use]
    pub const fn is_node(&self) -> bool {
        self.cluster_node != 0
    }

    /// Where the node listens for the others.
    pub(crate) fn cluster_address(&self) -> Option<&Location> {
        let own = || self.cluster_members.0.get(&self.cluster_node);
        self.cluster_listen.as_ref().or_else(own)
    }

    pub(super) fn check_cluster(&self) -> Result<(), SettingsError> {
        let refuse = |name: &'static str, reason: String| {
            Err(SettingsError::Value {
                name,
                origin: None,
                reason,
            })
        };
        if self.cluster_node > MAX_NODES {
            return refuse("cluster_node", format!("must be from 0 to {MAX_NODES}"));
        }
        if !(20..=60_000).contains(&self.cluster_election_timeout_milliseconds) {
            let reason = "must be from 20 to 60000".into();
            return refuse("cluster_election_timeout_milliseconds", reason);
        }
        if self.cluster_batch_interval_milliseconds > 100 {
            let reason = "must be from 0 to 100".into();
            return refuse("cluster_batch_interval_milliseconds", reason);
        }
        if self.cluster_wait_milliseconds > 3_600_000 {
            let reason = "must be from 0 to 3600000".into();
            return refuse("cluster_wait_milliseconds", reason);
        }
        if !matches!(self.any_read_away_milliseconds, 0 | 5..=60_000) {
            let reason = "must be from 5 to 60000, or 0 for never".into();
            return refuse("any_read_away_milliseconds", reason);
        }
        if !(1..=60_000).contains(&self.any_read_hold_milliseconds) {
            let reason = "must be from 1 to 60000".into();
            return refuse("any_read_hold_milliseconds", reason);
        }
        if !(10..=60_000).contains(&self.gamma_probe_interval_milliseconds) {
            let reason = "must be from 10 to 60000".into();
            return refuse("gamma_probe_interval_milliseconds", reason);
        }
        if self.cluster_protocol != Protocol::Leader {
            let reason = format!(
                "this command runs servers and clusters of the protocol {}; a node of the protocol \
                 {} is founded by `coeval epoch found` and run by `coeval epoch start`",
                Protocol::Leader,
                self.cluster_protocol
            );
            return refuse("cluster_protocol", reason);
        }
        if coeval_env::fs::exists_now(self.data_dir.join("NODE")).unwrap_or(false) {
            let reason = format!(
                "{} is of a node of a cluster of the protocol {}, which `coeval epoch start` runs",
                self.data_dir.display(),
                Protocol::Epoch
            );
            return refuse("data_dir", reason);
        }
        if !self.is_node() {
            let said = self.cluster_id.0.is_some()
                || !self.cluster_members.0.is_empty()
                || self.cluster_listen.is_some()
                || self.cluster_found
                || !self.cluster_without.0.is_empty()
                || self.cluster_join;
            if said {
                let reason = "other settings speak of a cluster; say which node of it this is, \
                              as cluster_node = 1";
                return refuse("cluster_node", reason.into());
            }
            return Ok(());
        }
        if self.cluster_found && self.cluster_join {
            let reason = "a node founds its cluster, or joins one that is there";
            return refuse("cluster_join", reason.into());
        }
        let strange = self.cluster_without.0.iter();
        let mut strange = strange.filter(|node| {
            **node == self.cluster_node || !self.cluster_members.0.contains_key(node)
        });
        if let Some(node) = strange.next() {
            let reason = format!("node {node} is none of the other members");
            return refuse("cluster_without", reason);
        }
        if !self.cluster_without.0.is_empty() && !self.cluster_found {
            let reason =
                "only a node that founds its cluster (--cluster-found) goes without others";
            return refuse("cluster_without", reason.into());
        }
        if self.cluster_version_limit > NEWEST_VERSION {
            let reason = format!("this build reads cluster versions up to {NEWEST_VERSION}");
            return refuse("cluster_version_limit", reason);
        }
        if self.cluster_id.0.is_none() {
            let reason = "a node needs the id of its cluster: 32 hexadecimal digits, the same on \
                          all nodes; `openssl rand -hex 16` draws one";
            return refuse("cluster_id", reason.into());
        }
        if !self.cluster_members.0.contains_key(&self.cluster_node) {
            let reason = format!(
                "node {node} is not among them; say where the others reach it, as \
                 {node}=127.0.0.1:7001",
                node = self.cluster_node
            );
            return refuse("cluster_members", reason);
        }
        let is_guarded = self.check_cluster_tls()?;
        if let Some(location) = self.cluster_address()
            && !location.is_loopback()
            && !is_guarded
            && !self.insecure
        {
            let reason = format!(
                "{} can be reached from other machines, and nodes talk to those through TLS \
                 only; name cluster_tls_name, cluster_tls_certificate_file, cluster_tls_key_file \
                 and cluster_tls_authority_file (`coeval cert` makes them), or say --insecure",
                location.host()
            );
            return refuse("cluster_listen", reason);
        }
        Ok(())
    }

    /// Whether TLS between nodes is configured; its settings must be given all, or none.
    fn check_cluster_tls(&self) -> Result<bool, SettingsError> {
        let parts = [
            ("cluster_tls_name", !self.cluster_tls_name.is_empty()),
            (
                "cluster_tls_certificate_file",
                self.cluster_tls_certificate_file.0.is_some(),
            ),
            (
                "cluster_tls_key_file",
                self.cluster_tls_key_file.0.is_some(),
            ),
            (
                "cluster_tls_authority_file",
                self.cluster_tls_authority_file.0.is_some(),
            ),
        ];
        let missing = parts.iter().find(|(_, there)| !there);
        let there = parts.iter().find(|(_, there)| *there);
        match (missing, there) {
            (Some((missing, _)), Some((there, _))) => Err(SettingsError::Value {
                name: missing,
                origin: None,
                reason: format!("TLS between nodes needs it, as {there} is said"),
            }),
            (missing, _) => Ok(missing.is_none()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::OptionalPath;
    use super::*;

    fn node() -> Settings {
        Settings {
            cluster_node: 2,
            cluster_id: OptionalClusterId(Some(ClusterId(7))),
            cluster_members: ClusterMembers::parse("1=127.0.0.1:7001, 2=localhost:7002").unwrap(),
            ..Settings::default()
        }
    }

    #[test]
    fn members_read_back_what_they_show() {
        for text in [
            "",
            "1=127.0.0.1:7001",
            "1=127.0.0.1:7001,20=[::1]:7002",
            "1=localhost:7001,2=db2.example.com:7001",
        ] {
            assert_eq!(ClusterMembers::parse(text).unwrap().show(), text);
        }
        for wrong in [
            "1",
            "1=",
            "=127.0.0.1:7001",
            "a=127.0.0.1:7001",
            "0=127.0.0.1:7001",
            "1=127.0.0.1:7001,",
            "1=127.0.0.1:7001,1=127.0.0.1:7002",
            "1=somewhere",
            "1001=127.0.0.1:7001",
        ] {
            assert!(ClusterMembers::parse(wrong).is_err(), "{wrong}");
        }
        assert!(OptionalClusterId::parse("7").is_err());
        for text in ["", "3", "3,4"] {
            assert_eq!(NodeNumbers::parse(text).unwrap().show(), text);
        }
        for wrong in ["0", "1001", "3,", "a"] {
            assert!(NodeNumbers::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_node_needs_is_asked_for_by_name() {
        type Change = fn(&mut Settings);
        node().check().unwrap();
        assert_eq!(node().cluster_address().unwrap().port(), 7002);
        let changes: [(&str, Change); 15] = [
            ("gamma_probe_interval_milliseconds", |settings| {
                settings.gamma_probe_interval_milliseconds = 9;
            }),
            ("any_read_away_milliseconds", |settings| {
                settings.any_read_away_milliseconds = 4;
            }),
            ("any_read_hold_milliseconds", |settings| {
                settings.any_read_hold_milliseconds = 0;
            }),
            ("cluster_without", |settings| {
                settings.cluster_found = true;
                settings.cluster_without = NodeNumbers::parse("2").unwrap();
            }),
            ("cluster_without", |settings| {
                settings.cluster_without = NodeNumbers::parse("1").unwrap();
            }),
            ("cluster_version_limit", |settings| {
                settings.cluster_version_limit = NEWEST_VERSION + 1;
            }),
            ("cluster_protocol", |settings| {
                settings.cluster_protocol = Protocol::Epoch;
            }),
            ("cluster_node", |settings| settings.cluster_node = 0),
            ("cluster_node", |settings| settings.cluster_node = 1001),
            ("cluster_id", |settings| settings.cluster_id.0 = None),
            ("cluster_members", |settings| settings.cluster_node = 3),
            ("cluster_listen", |settings| {
                settings.cluster_listen = Some(([0, 0, 0, 0], 7002).into());
            }),
            ("cluster_tls_certificate_file", |settings| {
                settings.cluster_tls_name = "shop".into();
            }),
            ("cluster_election_timeout_milliseconds", |settings| {
                settings.cluster_election_timeout_milliseconds = 1;
            }),
            ("cluster_batch_interval_milliseconds", |settings| {
                settings.cluster_batch_interval_milliseconds = 101;
            }),
        ];
        for (name, change) in changes {
            let mut settings = node();
            change(&mut settings);
            let refused = settings.check().unwrap_err();
            assert!(
                matches!(refused, SettingsError::Value { name: refused, .. } if refused == name),
                "{name}: {refused}"
            );
        }
    }

    #[test]
    fn other_machines_are_talked_to_through_tls_or_if_somebody_insists() {
        let path = || OptionalPath(Some("file".into()));
        let open = Settings {
            cluster_listen: Some(([0, 0, 0, 0], 7002).into()),
            ..node()
        };
        assert!(
            open.check()
                .unwrap_err()
                .to_string()
                .contains("say --insecure")
        );
        let guarded = Settings {
            cluster_tls_name: "shop".into(),
            cluster_tls_certificate_file: path(),
            cluster_tls_key_file: path(),
            cluster_tls_authority_file: path(),
            ..open.clone()
        };
        guarded.check().unwrap();
        let insecure = Settings {
            insecure: true,
            ..open
        };
        insecure.check().unwrap();
    }
}

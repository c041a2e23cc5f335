//! A node of a cluster within a server: starts the node, and opens and ends serving terms
//! as the node's status changes.
//!
//! When the node leads with a new engine, the server opens the database over it, and only
//! then accepts sessions. When the engine goes, the server moves its sessions away first
//! of all. A node that leads and cannot open the database, because its disk is full, say,
//! hands leadership over: else no client would be served until another node is elected.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_leader::node::{
    self, Founding, Link, NEWEST_VERSION, Node, NodeLocation, NodeStatus, Observer,
};
use coeval_peers::{Identity, Members, NodeId, Pem, Security, Tls};
use tokio::sync::watch;
use tracing::{debug, error, info};

use crate::metrics::ServerHost;
use crate::reader::Reader;
use crate::server::StartError;
use crate::serving_term::{Lead, ServingTerm};
use crate::settings::{self, Settings, SettingsError};
use crate::shared::Shared;
use crate::tls::TlsError;
use crate::{Effective, audit, engine};

/// Ticks of consensus in an election timeout.
const TICKS: u64 = 10;

/// How long a stopping node waits for another one to take over leadership.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Interval between two attempts of a node that leads and cannot serve to hand leadership
/// over.
const NOT_SERVED: Duration = Duration::from_millis(500);

/// Starts the node that the settings describe, with the observer attached.
pub(crate) async fn start_node(
    settings: &Settings,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Node, StartError> {
    let missing = |name| {
        StartError::Settings(SettingsError::Value {
            name,
            origin: None,
            reason: "a node of a cluster needs it".to_owned(),
        })
    };
    let cluster = settings.cluster_id.0.ok_or_else(|| missing("cluster_id"))?;
    let node = NodeId(settings.cluster_node);
    let addresses = settings.cluster_members.0.iter();
    check_first_start(settings).await?;
    let listen = settings.cluster_address();
    let listen = listen.ok_or_else(|| missing("cluster_listen"))?;
    let listen = settings::address("cluster_listen", listen).await?;
    let place = NodeLocation {
        identity: Identity { cluster, node },
        listen,
        members: Members {
            addresses: addresses
                .map(|(node, location)| (NodeId(*node), location.clone()))
                .collect(),
            ..Members::default()
        },
        join: settings.cluster_join,
        founding: match observer {
            // A simulated world, which loses no disk of a founder: its kept seeds decide how
            // a node starts there.
            Some(_) => Founding::AtOnce,
            None => founding(settings),
        },
        directory: settings.data_dir.clone(),
        security: security(settings, node).await?,
    };
    let mut of_node = node::Settings {
        tick_milliseconds: (settings.cluster_election_timeout_milliseconds / TICKS).max(1),
        batch_interval_milliseconds: settings.cluster_batch_interval_milliseconds,
        cluster_version: match settings.cluster_version_limit {
            0 => NEWEST_VERSION,
            limit => limit,
        },
        away_milliseconds: settings.any_read_away_milliseconds,
        hold_milliseconds: settings.any_read_hold_milliseconds,
        engine: engine::engine_settings(settings).await,
        definitions: Some(Arc::new(coeval_sql::FollowedCatalog)),
        observer,
        ..node::Settings::default()
    };
    of_node.consensus.election_ticks = TICKS as u32;
    of_node.peers.insecure = settings.insecure;
    Ok(Node::start(place, of_node).await?)
}

/// How the node founds its cluster, if its directory is empty.
fn founding(settings: &Settings) -> Founding {
    let without = settings.cluster_without.0.iter();
    Founding::Asked {
        without: without.map(|node| NodeId(*node)).collect(),
    }
}

/// Refuses to start a node with an empty directory unless the settings found or join a
/// cluster: a node that has lost its data and founded its cluster once more could vote
/// for others that lack entries that it had acknowledged.
async fn check_first_start(settings: &Settings) -> Result<(), StartError> {
    let control = settings.data_dir.join("CONTROL");
    let there = coeval_env::fs::exists(&control).await;
    let said = settings.cluster_found || settings.cluster_join;
    // An error of reading the file is reported by the code that opens it.
    if said || there.unwrap_or(true) {
        return Ok(());
    }
    Err(StartError::Settings(SettingsError::Value {
        name: "data_dir",
        origin: None,
        reason: format!(
            "{} holds no database. If the cluster starts for the first time, say \
             --cluster-found; if it is there already, --cluster-join. If this node's \
             data was lost, have the others remove the node (coeval cluster remove {node}), and \
             add this machine under a number that was never used",
            settings.data_dir.display(),
            node = settings.cluster_node,
        ),
    }))
}

/// Reads the certificates between nodes again, for connections from now on.
pub(crate) async fn reload_security(shared: &Shared) -> Result<(), StartError> {
    let Some(node) = &shared.node else {
        return Ok(());
    };
    let own = NodeId(shared.settings.cluster_node);
    let security = security(&shared.settings, own).await?;
    Ok(node.secure(security).await?)
}

async fn security(settings: &Settings, node: NodeId) -> Result<Security, StartError> {
    let (Some(certificate), Some(key), Some(authority)) = (
        &settings.cluster_tls_certificate_file.0,
        &settings.cluster_tls_key_file.0,
        &settings.cluster_tls_authority_file.0,
    ) else {
        return Ok(Security::Plain);
    };
    let (certificate, key, authority) = (
        read(certificate).await?,
        read(key).await?,
        read(authority).await?,
    );
    let pem = Pem {
        authority: &authority,
        certificate: &certificate,
        key: &key,
    };
    Ok(Security::Tls(Tls::new(
        pem,
        &settings.cluster_tls_name,
        node,
    )?))
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = coeval_env::fs::read(path).await;
    read.map_err(|error| TlsError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Opens and ends serving terms as the node's status changes, until the node ends.
pub(crate) async fn follow(shared: Arc<Shared>, effective: Effective) {
    let own = NodeId(shared.settings.cluster_node);
    let Some(node) = &shared.node else {
        return;
    };
    let mut node_status = node.node_status();
    let mut audited = BTreeSet::new();
    loop {
        let now = node_status.borrow_and_update().clone();
        if now.founded_without != audited {
            audit::founds_without(own.0, &now.founded_without);
            audited.clone_from(&now.founded_without);
        }
        if let Some(reason) = &now.failure {
            end(&shared, Lead::Nowhere);
            shared.engine_stopped(reason.to_string());
            return;
        }
        open_reader(&shared, &now, &effective);
        match &now.engine {
            Some(engine) => {
                if !serving_terms(&shared, engine) {
                    end(&shared, Lead::Nowhere);
                    begin(&shared, &now, &effective, node_status.clone()).await;
                }
            }
            None => {
                let elsewhere = now.leader.filter(|leader| *leader != own);
                end(&shared, elsewhere.map_or(Lead::Nowhere, Lead::There));
            }
        }
        if node_status.changed().await.is_err() {
            return end(&shared, Lead::Nowhere);
        }
    }
}

/// Opens a database over the tables that the node follows with, for reads of its clients,
/// and lets go of it when the node has other ones.
fn open_reader(shared: &Arc<Shared>, node_status: &NodeStatus, effective: &Effective) {
    if shared.reader_is_given.load(Ordering::Relaxed) {
        return;
    }
    let same = match (&*shared.reader.borrow(), &node_status.reader) {
        (Some(reader), Some(engine)) => {
            std::ptr::addr_eq(Arc::as_ptr(&reader.engine), Arc::as_ptr(engine))
        }
        (None, None) => true,
        _ => false,
    };
    if same {
        return;
    }
    let reader = node_status.reader.as_ref().map(|engine| {
        let host = ServerHost::new(Arc::downgrade(shared), effective.clone());
        Reader::open(Arc::clone(engine), &shared.settings, host)
    });
    shared.reader.send_replace(reader);
}

/// Hands leadership to another node, if one can take it, before this one stops: the
/// others then need no election timeout to notice.
pub(crate) async fn hand_over(node: &Node) {
    let Ok(status) = node.status().await else {
        return;
    };
    let voters = status.members.iter().filter(|member| member.is_voter);
    for member in voters.filter(|member| matches!(member.link, Link::Connected { .. })) {
        let handing = coeval_env::timeout(HAND_OVER, node.transfer(member.node));
        match handing.await {
            Ok(Ok(())) => return info!(to = %member.node, "another node leads"),
            Ok(Err(error)) => debug!(to = %member.node, %error, "not handed over"),
            Err(coeval_env::Elapsed) => return,
        }
    }
}

/// Whether the current serving term here is that of this engine.
fn serving_terms(shared: &Shared, engine: &Arc<coeval_occ::Engine>) -> bool {
    let serving_term = shared.serving_term();
    serving_term.is_some_and(|serving_term| Arc::ptr_eq(&serving_term.own, engine))
}

async fn begin(
    shared: &Arc<Shared>,
    node_status: &NodeStatus,
    effective: &Effective,
    mut changes: watch::Receiver<NodeStatus>,
) {
    let Some(engine) = &node_status.engine else {
        return;
    };
    let host = ServerHost::new(Arc::downgrade(shared), effective.clone());
    let opening = ServingTerm::open(Arc::clone(engine), &shared.settings, host);
    let serving = async {
        match opening.await {
            Ok(serving_term) => serving_term,
            Err(error) => {
                error!(%error, "the database cannot be opened in this term: another node is to lead");
                // The node may have been deposed just now. The server does not retry a
                // database that opened in part: the next term, here or elsewhere, has an
                // engine of its own.
                loop {
                    coeval_env::sleep(NOT_SERVED).await;
                    if let Some(node) = &shared.node {
                        hand_over(node).await;
                    }
                }
            }
        }
    };
    let over = changes.wait_for(|now| {
        let same = |now: &Arc<coeval_occ::Engine>| Arc::ptr_eq(now, engine);
        now.failure.is_some() || !now.engine.as_ref().is_some_and(same)
    });
    tokio::select! {
        biased;
        _ = over => {}
        serving_term = serving => {
            info!(term = %node_status.term, "this node leads: sessions run here");
            shared.lead.send_replace(Lead::Here(serving_term));
        }
    }
}

/// Ends the serving term of this node, and records where sessions run now.
fn end(shared: &Shared, lead: Lead) {
    let before = shared.lead.borrow().clone();
    match (&before, &lead) {
        (Lead::There(before), Lead::There(now)) if before == now => return,
        (Lead::Nowhere, Lead::Nowhere) => return,
        (_, Lead::There(node)) => info!(leader = %node, "another node leads: sessions run there"),
        (_, Lead::Nowhere) => info!("no node leads, as far as this node knows"),
        (_, Lead::Here(_)) => {}
    }
    shared.lead.send_replace(lead);
    if matches!(before, Lead::Here(_)) {
        shared.registry.depose();
    }
}

//! System tables of roles, their memberships and settings, and the database.
//!
//! Only superusers may read `pg_authid` and `pg_shadow`, which show password verifiers;
//! the views over them show asterisks instead.

use std::sync::Arc;

use crate::Value;
use crate::access::{Membership, OwnedSettings, Role, SettingOwner};
use crate::expression::EvaluationContext;
use crate::system::database::databases;
use crate::system::table::{array, system_table};
use crate::system::{PROBE, ROLE, role_name};

/// Roles, but for the one of the probe of Γ.
fn roles<'a>(context: &'a EvaluationContext<'_>) -> impl Iterator<Item = &'a Arc<Role>> {
    let all = context.catalog.access().roles();
    all.filter(|role| role.name != PROBE || role.login)
}

/// Roles with the LOGIN attribute.
fn users<'a>(context: &'a EvaluationContext<'_>) -> impl Iterator<Item = &'a Arc<Role>> {
    roles(context).filter(|role| role.login)
}

fn valid_until(role: &Role) -> Value {
    role.valid_until.map_or(Value::Null, Value::TimestampTz)
}

system_table! {
    /// Roles, with their password verifiers.
    PG_AUTHID = PG_CATALOG 1260 Table pg_authid;
    context => roles(context);
    role => {
        oid: Oid = role.oid,
        rolname: Name = role_name(role.oid, context),
        rolsuper: Bool = role.superuser,
        rolinherit: Bool = role.inherit,
        rolcreaterole: Bool = role.create_role,
        rolcreatedb: Bool = role.create_database,
        rolcanlogin: Bool = role.login,
        rolreplication: Bool = role.replication,
        rolbypassrls: Bool = role.bypass_policies,
        rolconnlimit: Int4 = role.connection_limit,
        rolpassword: Text = role.password.as_deref(),
        rolvaliduntil: TimestampTz = valid_until(role),
    }
}

system_table! {
    /// Roles, without password verifiers.
    PG_ROLES = PG_CATALOG 12000 View pg_roles;
    context => roles(context);
    role => {
        rolname: Name = role_name(role.oid, context),
        rolsuper: Bool = role.superuser,
        rolinherit: Bool = role.inherit,
        rolcreaterole: Bool = role.create_role,
        rolcreatedb: Bool = role.create_database,
        rolcanlogin: Bool = role.login,
        rolreplication: Bool = role.replication,
        rolconnlimit: Int4 = role.connection_limit,
        rolpassword: Text = "********",
        rolvaliduntil: TimestampTz = valid_until(role),
        rolbypassrls: Bool = role.bypass_policies,
        rolconfig: TextArray = config_of(role, context),
        oid: Oid = role.oid,
    }
}

system_table! {
    /// Roles with LOGIN, without password verifiers.
    PG_USER = PG_CATALOG 12014 View pg_user;
    context => users(context);
    role => {
        usename: Name = role_name(role.oid, context),
        usesysid: Oid = role.oid,
        usecreatedb: Bool = role.create_database,
        usesuper: Bool = role.superuser,
        userepl: Bool = role.replication,
        usebypassrls: Bool = role.bypass_policies,
        passwd: Text = "********",
        valuntil: TimestampTz = valid_until(role),
        useconfig: TextArray = config_of(role, context),
    }
}

system_table! {
    /// Roles with LOGIN, with their password verifiers.
    PG_SHADOW = PG_CATALOG 12005 View pg_shadow;
    context => users(context);
    role => {
        usename: Name = role_name(role.oid, context),
        usesysid: Oid = role.oid,
        usecreatedb: Bool = role.create_database,
        usesuper: Bool = role.superuser,
        userepl: Bool = role.replication,
        usebypassrls: Bool = role.bypass_policies,
        passwd: Text = role.password.as_deref(),
        valuntil: TimestampTz = valid_until(role),
        useconfig: TextArray = config_of(role, context),
    }
}

/// OIDs of the direct members of a role, as an array.
fn members(group: u32, context: &EvaluationContext<'_>) -> Value {
    let belongs = |role: &&Arc<Role>| role.memberships.iter().any(|each| each.role == group);
    array(roles(context).filter(belongs).map(|role| role.oid))
}

system_table! {
    /// Roles without LOGIN.
    PG_GROUP = PG_CATALOG 12010 View pg_group;
    context => roles(context).filter(|role| !role.login);
    role => {
        groname: Name = &role.name,
        grosysid: Oid = role.oid,
        grolist: OidArray = members(role.oid, context),
    }
}

/// Settings, as an array of `name=value`.
fn config(owned: &OwnedSettings) -> Value {
    let pairs = owned.settings.iter();
    array(pairs.map(|(name, value)| format!("{name}={value}")))
}

/// A role's settings in every database.
fn config_of(role: &Role, context: &EvaluationContext<'_>) -> Value {
    let (database, role) = (0, role.oid);
    let owner = SettingOwner { database, role };
    let owned = context.catalog.access().settings_of(owner);
    owned.map_or(Value::Null, config)
}

system_table! {
    /// Settings of roles, the database, and roles in it.
    PG_DB_ROLE_SETTING = PG_CATALOG 2964 Table pg_db_role_setting;
    context => context.catalog.access().settings();
    (owner, owned) => {
        setdatabase: Oid = owner.database,
        setrole: Oid = owner.role,
        setconfig: TextArray = config(owned),
    }
}

fn memberships<'a>(
    context: &'a EvaluationContext<'_>,
) -> impl Iterator<Item = (&'a Role, &'a Membership)> {
    roles(context).flat_map(|role| role.memberships.iter().map(|each| (&**role, each)))
}

system_table! {
    /// Role memberships.
    PG_AUTH_MEMBERS = PG_CATALOG 1261 Table pg_auth_members;
    context => memberships(context);
    (member, of) => {
        roleid: Oid = of.role,
        member: Oid = member.oid,
        grantor: Oid = of.grantor,
        admin_option: Bool = of.admin,
    }
}

system_table! {
    /// Databases: the one that there is, under all of its names.
    PG_DATABASE = PG_CATALOG 1262 Table pg_database;
    context => databases(context);
    each => {
        oid: Oid = each.oid,
        datname: Name = each.name,
        datdba: Oid = ROLE,
        encoding: Int4 = crate::system::functions::UTF8,
        datlocprovider: InternalChar = b'c',
        datistemplate: Bool = each.is_template,
        datallowconn: Bool = each.allows_connections,
        datconnlimit: Int4 = -1i32,
        datfrozenxid: Oid = 0u32,
        datminmxid: Oid = 0u32,
        dattablespace: Oid = 1663u32,
        datcollate: Text = "C",
        datctype: Text = "C.UTF-8",
        daticulocale: Text = Value::Null,
        datcollversion: Text = Value::Null,
        datacl: AclItemArray = Value::Null,
    }
}

//! The role and the database: whoever is connected, to whatever was asked for.

use crate::Value;
use crate::system::table::system_table;
use crate::system::{DATABASE, ROLE};

system_table! {
    /// Roles: the one that is connected, which may do everything.
    PG_AUTHID = PG_CATALOG 1260 Table pg_authid;
    context => [context.session.user.clone()];
    name => {
        oid: Oid = ROLE,
        rolname: Name = name,
        rolsuper: Bool = true,
        rolinherit: Bool = true,
        rolcreaterole: Bool = true,
        rolcreatedb: Bool = true,
        rolcanlogin: Bool = true,
        rolreplication: Bool = true,
        rolbypassrls: Bool = true,
        rolconnlimit: Int4 = -1i32,
        rolpassword: Text = Value::Null,
        rolvaliduntil: TimestampTz = Value::Null,
    }
}

system_table! {
    /// Roles, without passwords.
    PG_ROLES = PG_CATALOG 12000 View pg_roles;
    context => [context.session.user.clone()];
    name => {
        rolname: Name = name,
        rolsuper: Bool = true,
        rolinherit: Bool = true,
        rolcreaterole: Bool = true,
        rolcreatedb: Bool = true,
        rolcanlogin: Bool = true,
        rolreplication: Bool = true,
        rolconnlimit: Int4 = -1i32,
        rolpassword: Text = "********",
        rolvaliduntil: TimestampTz = Value::Null,
        rolbypassrls: Bool = true,
        rolconfig: TextArray = Value::Null,
        oid: Oid = ROLE,
    }
}

system_table! {
    /// Roles that can connect, without passwords.
    PG_USER = PG_CATALOG 12014 View pg_user;
    context => [context.session.user.clone()];
    name => {
        usename: Name = name,
        usesysid: Oid = ROLE,
        usecreatedb: Bool = true,
        usesuper: Bool = true,
        userepl: Bool = true,
        usebypassrls: Bool = true,
        passwd: Text = "********",
        valuntil: TimestampTz = Value::Null,
        useconfig: TextArray = Value::Null,
    }
}

system_table! {
    /// Roles that can connect.
    PG_SHADOW = PG_CATALOG 12005 View pg_shadow;
    context => [context.session.user.clone()];
    name => {
        usename: Name = name,
        usesysid: Oid = ROLE,
        usecreatedb: Bool = true,
        usesuper: Bool = true,
        userepl: Bool = true,
        usebypassrls: Bool = true,
        passwd: Text = Value::Null,
        valuntil: TimestampTz = Value::Null,
        useconfig: TextArray = Value::Null,
    }
}

system_table! {
    /// Roles that cannot connect: none.
    PG_GROUP = PG_CATALOG 12010 View pg_group;
    _context => std::iter::empty::<()>();
    () => {
        groname: Name = Value::Null,
        grosysid: Oid = Value::Null,
        grolist: OidArray = Value::Null,
    }
}

system_table! {
    /// Databases: the one there is, by the name this client knows it by.
    PG_DATABASE = PG_CATALOG 1262 Table pg_database;
    context => [context.session.database.clone()];
    name => {
        oid: Oid = DATABASE,
        datname: Name = name,
        datdba: Oid = ROLE,
        encoding: Int4 = crate::system::functions::UTF8,
        datlocprovider: InternalChar = b'c',
        datistemplate: Bool = false,
        datallowconn: Bool = true,
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

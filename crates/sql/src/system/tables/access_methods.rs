//! System tables of access methods, operator classes, tablespaces, languages and
//! functions.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::Value;
use crate::system::functions::TABLESPACES;
use crate::system::object::procedure;
use crate::system::table::{function, system_table};
use crate::system::{BTREE, HEAP, PG_CATALOG as PG_CATALOG_NAMESPACE, ROLE};
use crate::value::{DataType, OperatorClass};

/// OID of the operator class that orders a type; 0 if it has none.
pub(super) fn operator_class(data_type: DataType) -> u32 {
    match data_type.facts().operator_class {
        OperatorClass::None => 0,
        OperatorClass::Of(other) => operator_class(other),
        OperatorClass::Own { oid, .. } => oid,
    }
}

/// A type's own operator class: OID, name, OID and name of the family, type.
type OwnOperatorClass = (u32, &'static str, u32, &'static str, DataType);

/// The operator classes of all types.
fn operator_classes() -> impl Iterator<Item = OwnOperatorClass> {
    DataType::ALL.iter().filter_map(|&input| {
        let OperatorClass::Own { oid, name, family } = input.facts().operator_class else {
            return None;
        };
        Some((oid, name, family.0, family.1, input))
    })
}

system_table! {
    /// Access methods of tables and indexes. Clients expect tables to have `heap`; the
    /// ordered index has the name of PostgreSQL's, `btree`.
    PG_AM = PG_CATALOG 2601 Table pg_am;
    _context => [
        (HEAP, "heap", "heap_tableam_handler", b't'),
        (BTREE, "btree", "bthandler", b'i'),
    ];
    (oid, name, handler, kind) => {
        oid: Oid = oid,
        amname: Name = name,
        amhandler: Regproc = function(handler),
        amtype: InternalChar = kind,
    }
}

system_table! {
    /// Operator classes: the order that an index has on a type.
    PG_OPCLASS = PG_CATALOG 2616 Table pg_opclass;
    _context => operator_classes();
    (oid, name, family, _, input) => {
        oid: Oid = oid,
        opcmethod: Oid = BTREE,
        opcname: Name = name,
        opcnamespace: Oid = PG_CATALOG_NAMESPACE,
        opcowner: Oid = ROLE,
        opcfamily: Oid = family,
        opcintype: Oid = input.oid(),
        opcdefault: Bool = true,
        opckeytype: Oid = 0u32,
    }
}

/// Families of operator classes, without duplicates.
fn families() -> Vec<(u32, &'static str)> {
    let mut families: Vec<_> = operator_classes()
        .map(|(_, _, family, name, _)| (family, name))
        .collect();
    families.sort_unstable();
    families.dedup();
    families
}

system_table! {
    /// Operator families: groups of operator classes with compatible orders.
    PG_OPFAMILY = PG_CATALOG 2753 Table pg_opfamily;
    _context => families();
    (oid, name) => {
        oid: Oid = oid,
        opfmethod: Oid = BTREE,
        opfname: Name = name,
        opfnamespace: Oid = PG_CATALOG_NAMESPACE,
        opfowner: Oid = ROLE,
    }
}

system_table! {
    /// Tablespaces: those that every PostgreSQL has.
    PG_TABLESPACE = PG_CATALOG 1213 Table pg_tablespace;
    _context => TABLESPACES;
    (oid, name) => {
        oid: Oid = oid,
        spcname: Name = name,
        spcowner: Oid = ROLE,
        spcacl: AclItemArray = Value::Null,
        spcoptions: TextArray = Value::Null,
    }
}

system_table! {
    /// Languages of functions: only that of built-in functions.
    PG_LANGUAGE = PG_CATALOG 2612 Table pg_language;
    _context => [(12u32, "internal")];
    (oid, name) => {
        oid: Oid = oid,
        lanname: Name = name,
        lanowner: Oid = ROLE,
        lanispl: Bool = false,
        lanpltrusted: Bool = false,
        lanplcallfoid: Oid = 0u32,
        laninline: Oid = 0u32,
        lanvalidator: Oid = 0u32,
        lanacl: AclItemArray = Value::Null,
    }
}

system_table! {
    /// Functions that other system tables refer to.
    PG_PROC = PG_CATALOG 1255 Table pg_proc;
    _context => procedure::ALL.iter().copied();
    (oid, name) => {
        oid: Oid = oid,
        proname: Name = name,
        pronamespace: Oid = PG_CATALOG_NAMESPACE,
        proowner: Oid = ROLE,
        prolang: Oid = 12u32,
        procost: Float4 = 1.0f32,
        prorows: Float4 = 0.0f32,
        provariadic: Oid = 0u32,
        prosupport: Regproc = function(""),
        prokind: InternalChar = b'f',
        prosecdef: Bool = false,
        proleakproof: Bool = false,
        proisstrict: Bool = true,
        proretset: Bool = false,
        provolatile: InternalChar = b's',
        proparallel: InternalChar = b's',
        pronargs: Int2 = 1i16,
        pronargdefaults: Int2 = 0i16,
        // Void replaces types such as `internal`, which no value has.
        prorettype: Oid = DataType::Void.oid(),
        proargtypes: OidVector = vec![Value::Oid(DataType::Void.oid())],
        proallargtypes: OidArray = Value::Null,
        proargmodes: InternalCharArray = Value::Null,
        proargnames: TextArray = Value::Null,
        proargdefaults: Text = Value::Null,
        protrftypes: OidArray = Value::Null,
        prosrc: Text = name,
        probin: Text = Value::Null,
        prosqlbody: Text = Value::Null,
        proconfig: TextArray = Value::Null,
        proacl: AclItemArray = Value::Null,
    }
}

//! Empty system tables: those of objects that Coeval does not support, and those that
//! would list user-defined objects only.

use crate::system::table::{SystemTable, empty_tables};

pub(super) const PG_CATALOG_TABLES: &[SystemTable] = empty_tables! {
    PG_CATALOG;
    2600 Table pg_aggregate {
        aggfnoid: Regproc, aggkind: InternalChar, aggnumdirectargs: Int2, aggtransfn: Regproc,
        aggfinalfn: Regproc, aggcombinefn: Regproc, aggserialfn: Regproc,
        aggdeserialfn: Regproc, aggmtransfn: Regproc, aggminvtransfn: Regproc,
        aggmfinalfn: Regproc, aggfinalextra: Bool, aggmfinalextra: Bool,
        aggfinalmodify: InternalChar, aggmfinalmodify: InternalChar, aggsortop: Oid,
        aggtranstype: Oid, aggtransspace: Int4, aggmtranstype: Oid, aggmtransspace: Int4,
        agginitval: Text, aggminitval: Text,
    }
    2602 Table pg_amop {
        oid: Oid, amopfamily: Oid, amoplefttype: Oid, amoprighttype: Oid, amopstrategy: Int2,
        amoppurpose: InternalChar, amopopr: Oid, amopmethod: Oid, amopsortfamily: Oid,
    }
    2603 Table pg_amproc {
        oid: Oid, amprocfamily: Oid, amproclefttype: Oid, amprocrighttype: Oid,
        amprocnum: Int2, amproc: Regproc,
    }
    2605 Table pg_cast {
        oid: Oid, castsource: Oid, casttarget: Oid, castfunc: Oid, castcontext: InternalChar,
        castmethod: InternalChar,
    }
    2607 Table pg_conversion {
        oid: Oid, conname: Name, connamespace: Oid, conowner: Oid, conforencoding: Int4,
        contoencoding: Int4, conproc: Regproc, condefault: Bool,
    }
    826 Table pg_default_acl {
        oid: Oid, defaclrole: Oid, defaclnamespace: Oid, defaclobjtype: InternalChar,
        defaclacl: AclItemArray,
    }
    3501 Table pg_enum {
        oid: Oid, enumtypid: Oid, enumsortorder: Float4, enumlabel: Name,
    }
    3466 Table pg_event_trigger {
        oid: Oid, evtname: Name, evtevent: Name, evtowner: Oid, evtfoid: Oid,
        evtenabled: InternalChar, evttags: TextArray,
    }
    2328 Table pg_foreign_data_wrapper {
        oid: Oid, fdwname: Name, fdwowner: Oid, fdwhandler: Oid, fdwvalidator: Oid,
        fdwacl: AclItemArray, fdwoptions: TextArray,
    }
    1417 Table pg_foreign_server {
        oid: Oid, srvname: Name, srvowner: Oid, srvfdw: Oid, srvtype: Text, srvversion: Text,
        srvacl: AclItemArray, srvoptions: TextArray,
    }
    3118 Table pg_foreign_table {
        ftrelid: Oid, ftserver: Oid, ftoptions: TextArray,
    }
    2611 Table pg_inherits {
        inhrelid: Oid, inhparent: Oid, inhseqno: Int4, inhdetachpending: Bool,
    }
    3394 Table pg_init_privs {
        objoid: Oid, classoid: Oid, objsubid: Int4, privtype: InternalChar,
        initprivs: AclItemArray,
    }
    2995 Table pg_largeobject_metadata {
        oid: Oid, lomowner: Oid, lomacl: AclItemArray,
    }
    2617 Table pg_operator {
        oid: Oid, oprname: Name, oprnamespace: Oid, oprowner: Oid, oprkind: InternalChar,
        oprcanmerge: Bool, oprcanhash: Bool, oprleft: Oid, oprright: Oid, oprresult: Oid,
        oprcom: Oid, oprnegate: Oid, oprcode: Regproc, oprrest: Regproc, oprjoin: Regproc,
    }
    6243 Table pg_parameter_acl {
        oid: Oid, parname: Text, paracl: AclItemArray,
    }
    3350 Table pg_partitioned_table {
        partrelid: Oid, partstrat: InternalChar, partnatts: Int2, partdefid: Oid,
        partattrs: Int2Vector, partclass: OidVector, partcollation: OidVector, partexprs: Text,
    }
    3256 Table pg_policy {
        oid: Oid, polname: Name, polrelid: Oid, polcmd: InternalChar, polpermissive: Bool,
        polroles: OidArray, polqual: Text, polwithcheck: Text,
    }
    6104 Table pg_publication {
        oid: Oid, pubname: Name, pubowner: Oid, puballtables: Bool, pubinsert: Bool,
        pubupdate: Bool, pubdelete: Bool, pubtruncate: Bool, pubviaroot: Bool,
    }
    6237 Table pg_publication_namespace {
        oid: Oid, pnpubid: Oid, pnnspid: Oid,
    }
    6106 Table pg_publication_rel {
        oid: Oid, prpubid: Oid, prrelid: Oid, prqual: Text, prattrs: Int2Vector,
    }
    3541 Table pg_range {
        rngtypid: Oid, rngsubtype: Oid, rngmultitypid: Oid, rngcollation: Oid, rngsubopc: Oid,
        rngcanonical: Regproc, rngsubdiff: Regproc,
    }
    3596 Table pg_seclabel {
        objoid: Oid, classoid: Oid, objsubid: Int4, provider: Text, label: Text,
    }
    1214 Table pg_shdepend {
        dbid: Oid, classid: Oid, objid: Oid, objsubid: Int4, refclassid: Oid, refobjid: Oid,
        deptype: InternalChar,
    }
    3592 Table pg_shseclabel {
        objoid: Oid, classoid: Oid, provider: Text, label: Text,
    }
    3381 Table pg_statistic_ext {
        oid: Oid, stxrelid: Oid, stxname: Name, stxnamespace: Oid, stxowner: Oid,
        stxstattarget: Int4, stxkeys: Int2Vector, stxkind: InternalCharArray, stxexprs: Text,
    }
    6100 Table pg_subscription {
        oid: Oid, subdbid: Oid, subskiplsn: Text, subname: Name, subowner: Oid,
        subenabled: Bool, subbinary: Bool, substream: Bool, subtwophasestate: InternalChar,
        subdisableonerr: Bool, subconninfo: Text, subslotname: Name, subsynccommit: Text,
        subpublications: TextArray,
    }
    6102 Table pg_subscription_rel {
        srsubid: Oid, srrelid: Oid, srsubstate: InternalChar, srsublsn: Text,
    }
    3576 Table pg_transform {
        oid: Oid, trftype: Oid, trflang: Oid, trffromsql: Regproc, trftosql: Regproc,
    }
    2620 Table pg_trigger {
        oid: Oid, tgrelid: Oid, tgparentid: Oid, tgname: Name, tgfoid: Oid, tgtype: Int2,
        tgenabled: InternalChar, tgisinternal: Bool, tgconstrrelid: Oid, tgconstrindid: Oid,
        tgconstraint: Oid, tgdeferrable: Bool, tginitdeferred: Bool, tgnargs: Int2,
        tgattr: Int2Vector, tgargs: Text, tgqual: Text, tgoldtable: Name, tgnewtable: Name,
    }
    3602 Table pg_ts_config {
        oid: Oid, cfgname: Name, cfgnamespace: Oid, cfgowner: Oid, cfgparser: Oid,
    }
    3600 Table pg_ts_dict {
        oid: Oid, dictname: Name, dictnamespace: Oid, dictowner: Oid, dicttemplate: Oid,
        dictinitoption: Text,
    }
    3601 Table pg_ts_parser {
        oid: Oid, prsname: Name, prsnamespace: Oid, prsstart: Regproc, prstoken: Regproc,
        prsend: Regproc, prsheadline: Regproc, prslextype: Regproc,
    }
    3764 Table pg_ts_template {
        oid: Oid, tmplname: Name, tmplnamespace: Oid, tmplinit: Regproc, tmpllexize: Regproc,
    }
    1418 Table pg_user_mapping {
        oid: Oid, umuser: Oid, umserver: Oid, umoptions: TextArray,
    }
    12038 View pg_matviews {
        schemaname: Name, matviewname: Name, matviewowner: Name, tablespace: Name,
        hasindexes: Bool, ispopulated: Bool, definition: Text,
    }
    12018 View pg_policies {
        schemaname: Name, tablename: Name, policyname: Name, permissive: Text,
        roles: NameArray, cmd: Text, qual: Text, with_check: Text,
    }
    12068 View pg_publication_tables {
        pubname: Name, schemaname: Name, tablename: Name, attnames: NameArray, rowfilter: Text,
    }
    12023 View pg_rules {
        schemaname: Name, tablename: Name, rulename: Name, definition: Text,
    }
    12327 View pg_user_mappings {
        umid: Oid, srvid: Oid, srvname: Name, umuser: Oid, usename: Name, umoptions: TextArray,
    }
    12090 View pg_prepared_xacts {
        transaction: Oid, gid: Text, prepared: TimestampTz, owner: Name, database: Name,
    }
    12257 View pg_replication_slots {
        slot_name: Name, plugin: Name, slot_type: Text, datoid: Oid, database: Name,
        temporary: Bool, active: Bool, active_pid: Int4, xmin: Oid, catalog_xmin: Oid,
        restart_lsn: Text, confirmed_flush_lsn: Text, wal_status: Text, safe_wal_size: Int8,
        two_phase: Bool,
    }
};

pub(super) const INFORMATION_SCHEMA_TABLES: &[SystemTable] = empty_tables! {
    INFORMATION_SCHEMA;
    13377 View routines {
        specific_catalog: Name, specific_schema: Name, specific_name: Name,
        routine_catalog: Name, routine_schema: Name, routine_name: Name, routine_type: VarChar,
        module_catalog: Name, module_schema: Name, module_name: Name, udt_catalog: Name,
        udt_schema: Name, udt_name: Name, data_type: VarChar, character_maximum_length: Int4,
        character_octet_length: Int4, character_set_catalog: Name, character_set_schema: Name,
        character_set_name: Name, collation_catalog: Name, collation_schema: Name,
        collation_name: Name, numeric_precision: Int4, numeric_precision_radix: Int4,
        numeric_scale: Int4, datetime_precision: Int4, interval_type: VarChar,
        interval_precision: Int4, type_udt_catalog: Name, type_udt_schema: Name,
        type_udt_name: Name, scope_catalog: Name, scope_schema: Name, scope_name: Name,
        maximum_cardinality: Int4, dtd_identifier: Name, routine_body: VarChar,
        routine_definition: VarChar, external_name: VarChar, external_language: VarChar,
        parameter_style: VarChar, is_deterministic: VarChar, sql_data_access: VarChar,
        is_null_call: VarChar, sql_path: VarChar, schema_level_routine: VarChar,
        max_dynamic_result_sets: Int4, is_user_defined_cast: VarChar,
        is_implicitly_invocable: VarChar, security_type: VarChar,
        to_sql_specific_catalog: Name, to_sql_specific_schema: Name,
        to_sql_specific_name: Name, as_locator: VarChar, created: TimestampTz,
        last_altered: TimestampTz, new_savepoint_level: VarChar, is_udt_dependent: VarChar,
        result_cast_from_data_type: VarChar, result_cast_as_locator: VarChar,
        result_cast_char_max_length: Int4, result_cast_char_octet_length: Int4,
        result_cast_char_set_catalog: Name, result_cast_char_set_schema: Name,
        result_cast_char_set_name: Name, result_cast_collation_catalog: Name,
        result_cast_collation_schema: Name, result_cast_collation_name: Name,
        result_cast_numeric_precision: Int4, result_cast_numeric_precision_radix: Int4,
        result_cast_numeric_scale: Int4, result_cast_datetime_precision: Int4,
        result_cast_interval_type: VarChar, result_cast_interval_precision: Int4,
        result_cast_type_udt_catalog: Name, result_cast_type_udt_schema: Name,
        result_cast_type_udt_name: Name, result_cast_scope_catalog: Name,
        result_cast_scope_schema: Name, result_cast_scope_name: Name,
        result_cast_maximum_cardinality: Int4, result_cast_dtd_identifier: Name,
    }
    13334 View parameters {
        specific_catalog: Name, specific_schema: Name, specific_name: Name,
        ordinal_position: Int4, parameter_mode: VarChar, is_result: VarChar,
        as_locator: VarChar, parameter_name: Name, data_type: VarChar,
        character_maximum_length: Int4, character_octet_length: Int4,
        character_set_catalog: Name, character_set_schema: Name, character_set_name: Name,
        collation_catalog: Name, collation_schema: Name, collation_name: Name,
        numeric_precision: Int4, numeric_precision_radix: Int4, numeric_scale: Int4,
        datetime_precision: Int4, interval_type: VarChar, interval_precision: Int4,
        udt_catalog: Name, udt_schema: Name, udt_name: Name, scope_catalog: Name,
        scope_schema: Name, scope_name: Name, maximum_cardinality: Int4, dtd_identifier: Name,
        parameter_default: VarChar,
    }
    13440 View triggers {
        trigger_catalog: Name, trigger_schema: Name, trigger_name: Name,
        event_manipulation: VarChar, event_object_catalog: Name, event_object_schema: Name,
        event_object_table: Name, action_order: Int4, action_condition: VarChar,
        action_statement: VarChar, action_orientation: VarChar, action_timing: VarChar,
        action_reference_old_table: Name, action_reference_new_table: Name,
        action_reference_old_row: Name, action_reference_new_row: Name, created: TimestampTz,
    }
    13320 View domains {
        domain_catalog: Name, domain_schema: Name, domain_name: Name, data_type: VarChar,
        character_maximum_length: Int4, character_octet_length: Int4,
        character_set_catalog: Name, character_set_schema: Name, character_set_name: Name,
        collation_catalog: Name, collation_schema: Name, collation_name: Name,
        numeric_precision: Int4, numeric_precision_radix: Int4, numeric_scale: Int4,
        datetime_precision: Int4, interval_type: VarChar, interval_precision: Int4,
        domain_default: VarChar, udt_catalog: Name, udt_schema: Name, udt_name: Name,
        scope_catalog: Name, scope_schema: Name, scope_name: Name, maximum_cardinality: Int4,
        dtd_identifier: Name,
    }
    13339 View referential_constraints {
        constraint_catalog: Name, constraint_schema: Name, constraint_name: Name,
        unique_constraint_catalog: Name, unique_constraint_schema: Name,
        unique_constraint_name: Name, match_option: VarChar, update_rule: VarChar,
        delete_rule: VarChar,
    }
};

//! The table of conversion functions that system tables refer to: those that parse,
//! print, receive and send values of a type.
//!
//! SQL cannot call them, but clients compare their OIDs: a driver recognises an array
//! type by `typinput = 'array_in'::regproc`.

use crate::value::{DataType, Modifier};

/// OID and name of each function, sorted by OID.
pub(in crate::system) const ALL: &[(u32, &str)] = &[
    (3, "heap_tableam_handler"),
    (31, "byteaout"),
    (33, "charout"),
    (34, "namein"),
    (35, "nameout"),
    (38, "int2in"),
    (39, "int2out"),
    (40, "int2vectorin"),
    (41, "int2vectorout"),
    (42, "int4in"),
    (43, "int4out"),
    (44, "regprocin"),
    (45, "regprocout"),
    (46, "textin"),
    (47, "textout"),
    (48, "tidin"),
    (49, "tidout"),
    (50, "xidin"),
    (51, "xidout"),
    (54, "oidvectorin"),
    (55, "oidvectorout"),
    (109, "unknownin"),
    (110, "unknownout"),
    (200, "float4in"),
    (201, "float4out"),
    (214, "float8in"),
    (215, "float8out"),
    (321, "json_in"),
    (322, "json_out"),
    (323, "json_recv"),
    (324, "json_send"),
    (330, "bthandler"),
    (460, "int8in"),
    (461, "int8out"),
    (750, "array_in"),
    (751, "array_out"),
    (1044, "bpcharin"),
    (1045, "bpcharout"),
    (1046, "varcharin"),
    (1047, "varcharout"),
    (1084, "date_in"),
    (1085, "date_out"),
    (1143, "time_in"),
    (1144, "time_out"),
    (1150, "timestamptz_in"),
    (1151, "timestamptz_out"),
    (1160, "interval_in"),
    (1161, "interval_out"),
    (1242, "boolin"),
    (1243, "boolout"),
    (1244, "byteain"),
    (1245, "charin"),
    (1312, "timestamp_in"),
    (1313, "timestamp_out"),
    (1350, "timetz_in"),
    (1351, "timetz_out"),
    (1701, "numeric_in"),
    (1702, "numeric_out"),
    (1798, "oidin"),
    (1799, "oidout"),
    (2212, "regprocedurein"),
    (2213, "regprocedureout"),
    (2214, "regoperin"),
    (2215, "regoperout"),
    (2216, "regoperatorin"),
    (2217, "regoperatorout"),
    (2218, "regclassin"),
    (2219, "regclassout"),
    (2220, "regtypein"),
    (2221, "regtypeout"),
    (2290, "record_in"),
    (2291, "record_out"),
    (2298, "void_in"),
    (2299, "void_out"),
    (2400, "array_recv"),
    (2401, "array_send"),
    (2402, "record_recv"),
    (2403, "record_send"),
    (2404, "int2recv"),
    (2405, "int2send"),
    (2406, "int4recv"),
    (2407, "int4send"),
    (2408, "int8recv"),
    (2409, "int8send"),
    (2410, "int2vectorrecv"),
    (2411, "int2vectorsend"),
    (2412, "bytearecv"),
    (2413, "byteasend"),
    (2414, "textrecv"),
    (2415, "textsend"),
    (2416, "unknownrecv"),
    (2417, "unknownsend"),
    (2418, "oidrecv"),
    (2419, "oidsend"),
    (2420, "oidvectorrecv"),
    (2421, "oidvectorsend"),
    (2422, "namerecv"),
    (2423, "namesend"),
    (2424, "float4recv"),
    (2425, "float4send"),
    (2426, "float8recv"),
    (2427, "float8send"),
    (2430, "bpcharrecv"),
    (2431, "bpcharsend"),
    (2432, "varcharrecv"),
    (2433, "varcharsend"),
    (2434, "charrecv"),
    (2435, "charsend"),
    (2436, "boolrecv"),
    (2437, "boolsend"),
    (2438, "tidrecv"),
    (2439, "tidsend"),
    (2440, "xidrecv"),
    (2441, "xidsend"),
    (2444, "regprocrecv"),
    (2445, "regprocsend"),
    (2446, "regprocedurerecv"),
    (2447, "regproceduresend"),
    (2448, "regoperrecv"),
    (2449, "regopersend"),
    (2450, "regoperatorrecv"),
    (2451, "regoperatorsend"),
    (2452, "regclassrecv"),
    (2453, "regclasssend"),
    (2454, "regtyperecv"),
    (2455, "regtypesend"),
    (2460, "numeric_recv"),
    (2461, "numeric_send"),
    (2468, "date_recv"),
    (2469, "date_send"),
    (2470, "time_recv"),
    (2471, "time_send"),
    (2472, "timetz_recv"),
    (2473, "timetz_send"),
    (2474, "timestamp_recv"),
    (2475, "timestamp_send"),
    (2476, "timestamptz_recv"),
    (2477, "timestamptz_send"),
    (2478, "interval_recv"),
    (2479, "interval_send"),
    (2903, "intervaltypmodin"),
    (2904, "intervaltypmodout"),
    (2905, "timestamptypmodin"),
    (2906, "timestamptypmodout"),
    (2907, "timestamptztypmodin"),
    (2908, "timestamptztypmodout"),
    (2909, "timetypmodin"),
    (2910, "timetypmodout"),
    (2911, "timetztypmodin"),
    (2912, "timetztypmodout"),
    (2913, "bpchartypmodin"),
    (2914, "bpchartypmodout"),
    (2915, "varchartypmodin"),
    (2916, "varchartypmodout"),
    (2917, "numerictypmodin"),
    (2918, "numerictypmodout"),
    (2952, "uuid_in"),
    (2953, "uuid_out"),
    (2961, "uuid_recv"),
    (2962, "uuid_send"),
    (3120, "void_recv"),
    (3121, "void_send"),
    (3803, "jsonb_send"),
    (3804, "jsonb_out"),
    (3805, "jsonb_recv"),
    (3806, "jsonb_in"),
    (3816, "array_typanalyze"),
    (4001, "jsonpath_in"),
    (4002, "jsonpath_recv"),
    (4003, "jsonpath_out"),
    (4004, "jsonpath_send"),
    (4084, "regnamespacein"),
    (4085, "regnamespaceout"),
    (4087, "regnamespacerecv"),
    (4088, "regnamespacesend"),
    (4092, "regroleout"),
    (4094, "regrolerecv"),
    (4095, "regrolesend"),
    (4098, "regrolein"),
    (6098, "jsonb_subscript_handler"),
    (6179, "array_subscript_handler"),
    (6180, "raw_array_subscript_handler"),
];

// Fails to compile if a type lacks one of its conversion functions.
const _: () = {
    let mut at = 0;
    while at < DataType::ALL.len() {
        let facts = DataType::ALL[at].facts();
        assert!(
            has(facts.functions, "in")
                && has(facts.functions, "out")
                && has(facts.functions, "recv")
                && has(facts.functions, "send"),
            "pg_proc lists the functions that read, print, receive and send a type"
        );
        assert!(
            matches!(facts.modifier, Modifier::None)
                || has(facts.name, "typmodin") && has(facts.name, "typmodout"),
            "pg_proc lists the functions that read and print a type's modifier"
        );
        at += 1;
    }
};

/// Whether a function exists whose name is `head` followed by `tail`.
const fn has(head: &str, tail: &str) -> bool {
    let (head, tail) = (head.as_bytes(), tail.as_bytes());
    let mut at = 0;
    while at < ALL.len() {
        let name = ALL[at].1.as_bytes();
        if name.len() == head.len() + tail.len() {
            let (front, back) = name.split_at(head.len());
            if same(front, head) && same(back, tail) {
                return true;
            }
        }
        at += 1;
    }
    false
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len()
}

/// OID of the function of this name.
pub(in crate::system) fn oid(name: &str) -> Option<u32> {
    ALL.iter()
        .find(|(_, known)| *known == name)
        .map(|(oid, _)| *oid)
}

/// Name of the function with this OID.
pub(in crate::system) fn name(oid: u32) -> Option<&'static str> {
    let place = ALL.binary_search_by_key(&oid, |(number, _)| *number).ok()?;
    Some(ALL[place].1)
}

/// The types of the arguments of the function of this name, as `regprocedure` prints them.
pub(in crate::system) fn arguments(name: &str) -> String {
    let of = |tail: &str| {
        let head = name.strip_suffix(tail)?;
        let types = DataType::ALL.iter();
        types.copied().find(|each| each.facts().functions == head)
    };
    // What reads a value of an array, or of a type with a modifier, is told which type.
    let told = |data_type: DataType, first: &str| {
        let facts = data_type.facts();
        match facts.functions == "array_" || facts.modifier != Modifier::None {
            true => format!("{first},oid,integer"),
            false => first.to_owned(),
        }
    };
    if let Some(data_type) = of("in") {
        return told(data_type, "cstring");
    }
    if let Some(data_type) = of("recv") {
        return told(data_type, "internal");
    }
    if let Some(data_type) = of("out").or_else(|| of("send")) {
        return match data_type.facts().functions {
            "array_" => "anyarray".to_owned(),
            _ => data_type.sql_name().to_owned(),
        };
    }
    match name {
        _ if name.ends_with("typmodin") => "cstring[]",
        _ if name.ends_with("typmodout") => "integer",
        _ => "internal",
    }
    .to_owned()
}

/// A function with the types of its arguments.
pub(in crate::system) fn with_arguments(oid: u32) -> Option<String> {
    name(oid).map(|name| format!("{name}({})", arguments(name)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_are_those_of_postgresql() {
        for (name, arguments) in [
            ("array_in", "cstring,oid,integer"),
            ("int4in", "cstring"),
            ("varcharin", "cstring,oid,integer"),
            ("timestamptz_recv", "internal,oid,integer"),
            ("textsend", "text"),
            ("array_out", "anyarray"),
            ("numerictypmodin", "cstring[]"),
        ] {
            assert_eq!(super::arguments(name), arguments, "{name}");
        }
    }

    #[test]
    fn functions_are_in_the_order_of_their_numbers() {
        assert!(super::ALL.is_sorted_by(|left, right| left.0 < right.0));
        assert_eq!(super::name(750), Some("array_in"));
        assert_eq!(super::oid("array_in"), Some(750));
    }
}

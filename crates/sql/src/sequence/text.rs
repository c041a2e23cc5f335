//! Sequences in expressions that the catalog keeps, such as a column's default: they are
//! kept by their OIDs, so that renaming a sequence changes no expression, and shown by their
//! names.
//!
//! ```text
//!   default nextval('orders_id_seq')              as it is written
//!   nextval('16390'::regclass)                    as it is kept
//!   nextval('orders_id_seq'::regclass)            as it is shown
//! ```

use coeval_sql_syntax::tree::{
    Arguments, BaseType, Cast, Expr, ExprKind, Literal, Name, Path, TypeName,
};

use crate::error::Result;

/// Functions whose first argument is a sequence.
const FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

const REGCLASS: &str = "regclass";

/// The text of a literal that is cast to regclass.
fn relation_text(expr: &Expr) -> Option<&str> {
    let ExprKind::Cast(cast) = &expr.kind else {
        return None;
    };
    let ExprKind::Literal(Literal::String(text)) = &cast.operand.kind else {
        return None;
    };
    let BaseType::Named(path, _) = &cast.target.base else {
        return None;
    };
    let is_regclass = path.0.last().is_some_and(|name| name.text == REGCLASS);
    (is_regclass && cast.target.dimensions.is_empty()).then_some(text)
}

/// A literal that is cast to regclass.
fn relation_literal(text: String, at: u32) -> ExprKind {
    let kind = ExprKind::Literal(Literal::String(text));
    let name = Name {
        text: REGCLASS.into(),
        at,
    };
    ExprKind::Cast(Box::new(Cast {
        operand: Expr { at, kind },
        target: TypeName {
            at,
            setof: false,
            base: BaseType::Named(Path(vec![name]), Vec::new()),
            dimensions: Vec::new(),
        },
    }))
}

/// The expression with OIDs in place of relations' names. `find` looks a name up, with the
/// place where it stands, and fails if no relation has it.
pub(crate) fn with_numbers(
    mut expr: Expr,
    find: &mut dyn FnMut(&str, u32) -> Result<u32>,
) -> Result<Expr> {
    let mut failed = Ok(());
    let mut replace = |each: &mut Expr, text: &str| {
        let replaced = find(text, each.at).map(|oid| relation_literal(oid.to_string(), each.at));
        match replaced {
            Ok(kind) => each.kind = kind,
            Err(error) => failed = Err(error),
        }
    };
    expr.walk_mut(&mut |each| {
        if let Some(text) = relation_text(each).map(str::to_owned) {
            replace(each, &text);
        }
        let ExprKind::Function(call) = &mut each.kind else {
            return;
        };
        let is_of_sequence = call
            .name
            .0
            .last()
            .is_some_and(|name| FUNCTIONS.contains(&name.text.as_str()));
        if let Arguments::List(list) = &mut call.arguments
            && is_of_sequence
            && let Some(first) = list.arguments.first_mut()
            && let ExprKind::Literal(Literal::String(text)) = &first.value.kind
        {
            let text = text.clone();
            replace(&mut first.value, &text);
        }
    });
    failed.map(|()| expr)
}

/// The expression with names in place of relations' OIDs, as far as `name` knows them.
pub(crate) fn with_names(mut expr: Expr, name: &dyn Fn(u32) -> Option<String>) -> Expr {
    expr.walk_mut(&mut |each| {
        let named = relation_text(each).and_then(|text| name(text.parse().ok()?));
        if let Some(named) = named {
            each.kind = relation_literal(named, each.at);
        }
    });
    expr
}

/// OIDs of the relations in an expression that is kept.
pub(crate) fn named_sequences(mut expr: Expr) -> Vec<u32> {
    let mut all = Vec::new();
    expr.walk_mut(&mut |each| {
        all.extend(relation_text(each).and_then(|text| text.parse::<u32>().ok()));
    });
    all
}

#[cfg(test)]
mod tests {
    use coeval_sql_syntax::print;

    use super::*;
    use crate::error::{Error, SqlState};
    use crate::statement::parse_expression;

    #[test]
    fn names_are_kept_as_numbers_and_shown_as_names() {
        let mut find = |text: &str, _| match text {
            "s" | "public.s" => Ok(16_390),
            _ => Err(Error::new(SqlState::UNDEFINED_TABLE, text)),
        };
        for (written, kept, shown) in [
            (
                "nextval('s')",
                "nextval('16390'::regclass)",
                "nextval('t'::regclass)",
            ),
            (
                "1 + pg_catalog.nextval('public.s'::regclass)",
                "1 + pg_catalog.nextval('16390'::regclass)",
                "1 + pg_catalog.nextval('t'::regclass)",
            ),
            ("'s'", "'s'", "'s'"),
        ] {
            let numbered = with_numbers(parse_expression(written).unwrap(), &mut find).unwrap();
            assert_eq!(
                print::expr(&numbered),
                print::expr(&parse_expression(kept).unwrap())
            );
            let named = with_names(numbered.clone(), &|oid| (oid == 16_390).then(|| "t".into()));
            assert_eq!(
                print::expr(&named),
                print::expr(&parse_expression(shown).unwrap())
            );
            assert_eq!(
                named_sequences(numbered).len(),
                usize::from(written != "'s'")
            );
        }
        let unknown = with_numbers(parse_expression("nextval('u')").unwrap(), &mut find);
        assert_eq!(unknown.unwrap_err().state(), SqlState::UNDEFINED_TABLE);
    }
}

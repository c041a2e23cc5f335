//! Printing of expressions: every operand that is no atom stands in brackets, except the left
//! one of operators of one precedence, so `a + b - c` is not nested and `(a + b) * c` is.

use super::Printer;
use crate::tree::{
    Argument, Arguments, Comparison, Exclude, Expr, ExprKind, Frame, FrameBound, FrameUnit,
    FunctionCall, LikeKind, Literal, Name, NormalForm, Operator, Over, Quantity, Special,
    Standalone, Step, Test, TrimSide, Window, Xml,
};

/// Stack for one level of an expression, and what is asked for beyond it.
const RED_ZONE: usize = 64 << 10;
const MORE_STACK: usize = 2 << 20;

/// Whether an expression has to stand in brackets as an operand.
fn is_compound(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(Literal::Integer(value)) => *value < 0,
        ExprKind::Literal(Literal::Number(text)) => text.starts_with('-'),
        ExprKind::Binary(..)
        | ExprKind::Prefix(..)
        | ExprKind::Not(_)
        | ExprKind::And(_)
        | ExprKind::Or(_)
        | ExprKind::Is(_)
        | ExprKind::Distinct(_)
        | ExprKind::Like(_)
        | ExprKind::Between(_)
        | ExprKind::InList(_)
        | ExprKind::InQuery(_)
        | ExprKind::Quantified(_)
        | ExprKind::Overlaps(..)
        | ExprKind::Collate(..)
        | ExprKind::AtTimeZone(..) => true,
        _ => false,
    }
}

/// Whether a left operand ends in brackets: always, but between operators of one precedence
/// that associates to the left. A long sum is not nested, and neither is what is printed.
fn needs_brackets(left: &Operator, right: &Operator) -> bool {
    let level = |operator: &Operator| match operator.symbol.as_str() {
        _ if !operator.schema.is_empty() => Some(0),
        "<" | ">" | "=" | "<=" | ">=" | "<>" => None,
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        "^" => Some(3),
        _ => Some(0),
    };
    level(left).is_none() || level(left) != level(right)
}

impl Printer {
    pub(super) fn expr(&mut self, expr: &Expr) {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.expr_inside(expr));
    }

    pub(super) fn operand(&mut self, expr: &Expr) {
        if is_compound(expr) {
            self.brackets(|printer| printer.expr(expr));
        } else {
            self.expr(expr);
        }
    }

    pub(super) fn exprs(&mut self, exprs: &[Expr]) {
        self.list(exprs, Self::expr);
    }

    pub(super) fn bracketed_exprs(&mut self, exprs: &[Expr]) {
        self.bracketed(exprs, Self::expr);
    }

    fn expr_inside(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(literal) => self.literal(literal),
            ExprKind::Column { path, star } => {
                self.path(path);
                if *star {
                    self.glue(".*");
                }
            }
            ExprKind::Parameter(number) => self.put(&format!("${number}")),
            ExprKind::Default => self.put("DEFAULT"),
            ExprKind::Indirection(base, steps) => {
                if matches!(base.kind, ExprKind::Subquery(_)) {
                    self.expr(base);
                } else {
                    self.brackets(|printer| printer.expr(base));
                }
                self.steps(steps);
            }
            ExprKind::Binary(first, rest) => {
                let breaks: Vec<bool> = rest
                    .windows(2)
                    .map(|pair| needs_brackets(&pair[0].0, &pair[1].0))
                    .collect();
                for _ in breaks.iter().filter(|due| **due) {
                    self.put("(");
                }
                self.operand(first);
                for (index, (operator, right)) in rest.iter().enumerate() {
                    if index > 0 && breaks[index - 1] {
                        self.put(")");
                    }
                    self.operator(operator);
                    self.operand(right);
                }
            }
            ExprKind::Prefix(operator, operand) => {
                // These are prefix operators only inside of OPERATOR().
                let is_infix = ["*", "/", "%", "^", "<", ">", "=", "<=", ">=", "<>"];
                if operator.schema.is_empty() && is_infix.contains(&operator.symbol.as_str()) {
                    self.put("OPERATOR(");
                    self.bare_operator(operator);
                    self.put(")");
                } else {
                    self.operator(operator);
                }
                self.operand(operand);
            }
            ExprKind::Not(operand) => {
                self.put("NOT");
                self.operand(operand);
            }
            ExprKind::And(items) => self.list_with(items, " AND", Self::operand),
            ExprKind::Or(items) => self.list_with(items, " OR", Self::operand),
            ExprKind::Is(is) => {
                self.operand(&is.operand);
                self.put("IS");
                self.put_if(is.negated, "NOT");
                match is.test {
                    Test::Null => self.put("NULL"),
                    Test::True => self.put("TRUE"),
                    Test::False => self.put("FALSE"),
                    Test::Unknown => self.put("UNKNOWN"),
                    Test::Document => self.put("DOCUMENT"),
                    Test::Normalized(form) => {
                        self.normal_form(form);
                        self.put("NORMALIZED");
                    }
                }
            }
            ExprKind::Distinct(distinct) => {
                self.operand(&distinct.left);
                self.put(if distinct.negated {
                    "IS NOT DISTINCT FROM"
                } else {
                    "IS DISTINCT FROM"
                });
                self.operand(&distinct.right);
            }
            ExprKind::Like(like) => {
                self.operand(&like.operand);
                self.like_words(like.kind, like.negated);
                self.operand(&like.pattern);
                if let Some(escape) = &like.escape {
                    self.put("ESCAPE");
                    self.operand(escape);
                }
            }
            ExprKind::Between(between) => {
                self.operand(&between.operand);
                self.put_if(between.negated, "NOT");
                self.put("BETWEEN");
                self.put_if(between.symmetric, "SYMMETRIC");
                self.operand(&between.low);
                self.put("AND");
                self.operand(&between.high);
            }
            ExprKind::InList(test) => {
                self.operand(&test.operand);
                self.put_if(test.negated, "NOT");
                self.put("IN");
                self.bracketed_exprs(&test.list);
            }
            ExprKind::InQuery(test) => {
                self.operand(&test.operand);
                self.put_if(test.negated, "NOT");
                self.put("IN");
                self.brackets(|printer| printer.query(&test.query));
            }
            ExprKind::Quantified(quantified) => {
                self.operand(&quantified.left);
                match &quantified.comparison {
                    Comparison::Operator(operator) => self.operator(operator),
                    Comparison::Like(kind, negated) => self.like_words(*kind, *negated),
                }
                self.put(if quantified.all { "ALL" } else { "ANY" });
                self.brackets(|printer| match &quantified.right {
                    Quantity::Query(query) => printer.query(query),
                    Quantity::Array(array) => printer.expr(array),
                });
            }
            ExprKind::Overlaps(left, right) => {
                self.bracketed_exprs(left);
                self.put("OVERLAPS");
                self.bracketed_exprs(right);
            }
            ExprKind::Exists(query) => {
                self.put("EXISTS");
                self.brackets(|printer| printer.query(query));
            }
            ExprKind::Subquery(query) => self.brackets(|printer| printer.query(query)),
            ExprKind::Array(elements) => {
                self.put("ARRAY");
                self.array(elements);
            }
            ExprKind::ArrayQuery(query) => {
                self.put("ARRAY");
                self.brackets(|printer| printer.query(query));
            }
            ExprKind::Row(row) => {
                self.put_if(row.explicit, "ROW");
                self.bracketed_exprs(&row.fields);
            }
            ExprKind::Case(case) => {
                self.put("CASE");
                if let Some(operand) = &case.operand {
                    self.operand(operand);
                }
                for (condition, value) in &case.branches {
                    self.put("WHEN");
                    self.operand(condition);
                    self.put("THEN");
                    self.operand(value);
                }
                if let Some(otherwise) = &case.otherwise {
                    self.put("ELSE");
                    self.operand(otherwise);
                }
                self.put("END");
            }
            ExprKind::Cast(cast) => {
                self.put("CAST(");
                self.expr(&cast.operand);
                self.put("AS");
                self.type_name(&cast.target);
                self.put(")");
            }
            ExprKind::Collate(operand, name) => {
                self.operand(operand);
                self.put("COLLATE");
                self.path(name);
            }
            ExprKind::AtTimeZone(operand, zone) => {
                self.operand(operand);
                self.put("AT TIME ZONE");
                self.operand(zone);
            }
            ExprKind::Function(call) => self.call(call),
            ExprKind::Special(special) => self.special(special),
            ExprKind::Grouping(items) => {
                self.put("GROUPING");
                self.bracketed_exprs(items);
            }
        }
    }

    fn array(&mut self, elements: &[Expr]) {
        self.glue("[");
        self.exprs(elements);
        self.put("]");
    }

    pub(super) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Field(name) => {
                    self.glue(".");
                    self.name(name);
                }
                Step::Star => self.glue(".*"),
                Step::Index(index) => {
                    self.glue("[");
                    self.expr(index);
                    self.put("]");
                }
                Step::Slice(lower, upper) => {
                    self.glue("[");
                    if let Some(lower) = lower {
                        self.operand(lower);
                    }
                    self.put(": ");
                    if let Some(upper) = upper {
                        self.operand(upper);
                    }
                    self.put("]");
                }
            }
        }
    }

    fn like_words(&mut self, kind: LikeKind, negated: bool) {
        self.put_if(negated, "NOT");
        self.put(match kind {
            LikeKind::Like => "LIKE",
            LikeKind::Ilike => "ILIKE",
            LikeKind::SimilarTo => "SIMILAR TO",
        });
    }

    fn normal_form(&mut self, form: NormalForm) {
        self.put(match form {
            NormalForm::Default => "",
            NormalForm::Nfc => "NFC",
            NormalForm::Nfd => "NFD",
            NormalForm::Nfkc => "NFKC",
            NormalForm::Nfkd => "NFKD",
        });
    }

    fn argument(&mut self, argument: &Argument) {
        if let Some(name) = &argument.name {
            self.name(name);
            self.put("=>");
        }
        self.expr(&argument.value);
    }

    pub(super) fn call(&mut self, call: &FunctionCall) {
        self.path(&call.name);
        self.glue("(");
        match &call.arguments {
            Arguments::Star => self.put("*"),
            Arguments::List(list) => {
                self.put_if(list.distinct, "DISTINCT");
                let last = list.arguments.len().saturating_sub(1);
                for (index, argument) in list.arguments.iter().enumerate() {
                    self.put(if index > 0 { "," } else { "" });
                    self.put_if(list.variadic && index == last, "VARIADIC");
                    self.argument(argument);
                }
                self.order(&list.order);
            }
        }
        self.put(")");
        if !call.within_group.is_empty() {
            self.put("WITHIN GROUP");
            self.brackets(|printer| printer.order(&call.within_group));
        }
        if let Some(filter) = &call.filter {
            self.put("FILTER (WHERE");
            self.expr(filter);
            self.put(")");
        }
        match &call.over {
            None => {}
            Some(Over::Named(name)) => self.named("OVER", Some(name)),
            Some(Over::Window(window)) => {
                self.put("OVER");
                self.window(window);
            }
        }
    }

    pub(super) fn window(&mut self, window: &Window) {
        self.brackets(|printer| {
            printer.named("", window.base.as_ref());
            if !window.partition.is_empty() {
                printer.put("PARTITION BY");
                printer.exprs(&window.partition);
            }
            printer.order(&window.order);
            if let Some(frame) = &window.frame {
                printer.frame(frame);
            }
        });
    }

    fn frame(&mut self, frame: &Frame) {
        self.put(match frame.unit {
            FrameUnit::Range => "RANGE",
            FrameUnit::Rows => "ROWS",
            FrameUnit::Groups => "GROUPS",
        });
        self.put_if(frame.end.is_some(), "BETWEEN");
        self.frame_bound(&frame.start);
        if let Some(end) = &frame.end {
            self.put("AND");
            self.frame_bound(end);
        }
        self.put(match frame.exclude {
            Exclude::Nothing => "",
            Exclude::CurrentRow => "EXCLUDE CURRENT ROW",
            Exclude::Group => "EXCLUDE GROUP",
            Exclude::Ties => "EXCLUDE TIES",
        });
    }

    fn frame_bound(&mut self, bound: &FrameBound) {
        match bound {
            FrameBound::UnboundedPreceding => self.put("UNBOUNDED PRECEDING"),
            FrameBound::UnboundedFollowing => self.put("UNBOUNDED FOLLOWING"),
            FrameBound::CurrentRow => self.put("CURRENT ROW"),
            FrameBound::Preceding(offset) => {
                self.operand(offset);
                self.put("PRECEDING");
            }
            FrameBound::Following(offset) => {
                self.operand(offset);
                self.put("FOLLOWING");
            }
        }
    }

    fn words_of(&mut self, name: &str, exprs: &[Expr]) {
        self.put(name);
        self.glue("(");
        self.exprs(exprs);
        self.put(")");
    }

    /// Words, each with an expression behind it if there is one.
    fn clauses(&mut self, clauses: &[(&str, Option<&Expr>)]) {
        for (words, value) in clauses {
            if let Some(value) = value {
                self.put(words);
                self.operand(value);
            }
        }
    }

    pub(super) fn special(&mut self, special: &Special) {
        match special {
            Special::Value(value, precision) => {
                self.put(value.word());
                if let Some(precision) = precision {
                    self.brackets(|printer| printer.number(precision));
                }
            }
            Special::Coalesce(exprs) => self.words_of("COALESCE", exprs),
            Special::Greatest(exprs) => self.words_of("GREATEST", exprs),
            Special::Least(exprs) => self.words_of("LEAST", exprs),
            Special::NullIf(left, right) => {
                self.put("NULLIF(");
                self.expr(left);
                self.put(",");
                self.expr(right);
                self.put(")");
            }
            Special::CollationFor(expr) => {
                self.put("COLLATION FOR (");
                self.expr(expr);
                self.put(")");
            }
            Special::Extract(field, from) => {
                self.put("EXTRACT(");
                self.string(field);
                self.clauses(&[("FROM", Some(from))]);
                self.put(")");
            }
            Special::Normalize(text, form) => {
                self.put("NORMALIZE(");
                self.expr(text);
                if *form != NormalForm::Default {
                    self.put(",");
                    self.normal_form(*form);
                }
                self.put(")");
            }
            Special::Overlay {
                text,
                placing,
                from,
                length,
            } => {
                self.put("OVERLAY(");
                self.clauses(&[
                    ("", Some(text)),
                    ("PLACING", Some(placing)),
                    ("FROM", Some(from)),
                    ("FOR", length.as_ref()),
                ]);
                self.put(")");
            }
            Special::Position(part, text) => {
                self.put("POSITION(");
                self.clauses(&[("", Some(part)), ("IN", Some(text))]);
                self.put(")");
            }
            Special::Substring(call) => {
                self.put("SUBSTRING(");
                let similar = call.similar.as_ref();
                self.clauses(&[
                    ("", Some(&call.text)),
                    ("SIMILAR", similar.map(|similar| &similar.0)),
                    ("ESCAPE", similar.map(|similar| &similar.1)),
                    ("FROM", call.from.as_ref()),
                    ("FOR", call.length.as_ref()),
                ]);
                self.put(")");
            }
            Special::Plain(name, arguments) => {
                self.put(name);
                self.glue("(");
                self.list(arguments, Self::argument);
                self.put(")");
            }
            Special::Trim(side, arguments) => {
                self.put("TRIM(");
                self.put(match side {
                    TrimSide::Both => "BOTH",
                    TrimSide::Leading => "LEADING",
                    TrimSide::Trailing => "TRAILING",
                });
                self.exprs(arguments);
                self.put(")");
            }
            Special::Treat(operand, target) => {
                self.put("TREAT(");
                self.expr(operand);
                self.put("AS");
                self.type_name(target);
                self.put(")");
            }
            Special::Xml(xml) => self.xml(xml),
        }
    }

    fn xml_attributes(&mut self, attributes: &[(Expr, Option<Name>)]) {
        self.list(attributes, |printer, (value, name)| {
            printer.expr(value);
            printer.named("AS", name.as_ref());
        });
    }

    fn xml(&mut self, xml: &Xml) {
        match xml {
            Xml::Concat(exprs) => self.words_of("XMLCONCAT", exprs),
            Xml::Element {
                name,
                attributes,
                content,
            } => {
                self.put("XMLELEMENT(NAME");
                self.name(name);
                if !attributes.is_empty() {
                    self.put(", XMLATTRIBUTES(");
                    self.xml_attributes(attributes);
                    self.put(")");
                }
                if !content.is_empty() {
                    self.put(",");
                    self.exprs(content);
                }
            }
            Xml::Exists(path, document) => {
                self.put("XMLEXISTS(");
                self.operand(path);
                self.put("PASSING");
                self.operand(document);
            }
            Xml::Forest(attributes) => {
                self.put("XMLFOREST(");
                self.xml_attributes(attributes);
            }
            Xml::Parse {
                document,
                text,
                preserve,
            } => {
                self.put(if *document {
                    "XMLPARSE(DOCUMENT"
                } else {
                    "XMLPARSE(CONTENT"
                });
                self.expr(text);
                self.put_if(*preserve, "PRESERVE WHITESPACE");
            }
            Xml::Instruction(name, content) => {
                self.put("XMLPI(NAME");
                self.name(name);
                self.clauses(&[(",", content.as_ref())]);
            }
            Xml::Root {
                document,
                version,
                standalone,
            } => {
                self.put("XMLROOT(");
                self.expr(document);
                self.put(", VERSION");
                match version {
                    Some(version) => self.expr(version),
                    None => self.put("NO VALUE"),
                }
                self.put(match standalone {
                    Standalone::Omitted => "",
                    Standalone::Yes => ", STANDALONE YES",
                    Standalone::No => ", STANDALONE NO",
                    Standalone::NoValue => ", STANDALONE NO VALUE",
                });
            }
            Xml::Serialize {
                document,
                value,
                target,
            } => {
                self.put(if *document {
                    "XMLSERIALIZE(DOCUMENT"
                } else {
                    "XMLSERIALIZE(CONTENT"
                });
                self.expr(value);
                self.put("AS");
                self.type_name(target);
            }
        }
        if !matches!(xml, Xml::Concat(_)) {
            self.put(")");
        }
    }
}

//! Evaluation of a `jsonpath`: the items that it finds in a document.
//!
//! In lax mode, the default, an accessor of members takes an array apart, one of elements
//! takes anything else as an array of one, and what is not there finds nothing. In strict mode each of
//! these is an error. Conditions have three values: an error in one makes it unknown.

#![expect(
    clippy::ptr_arg,
    reason = "the item that @ stands for is copied where it is borrowed"
)]

use std::borrow::Cow;
use std::cmp::Ordering;

use smol_str::SmolStr;

use crate::expression::regex;
use crate::expression::{EvaluationContext, ROW, with_stack};
use crate::value::Numeric;
use crate::value::json::Json;
use crate::value::path::{Method, Node, Operator, Path};
use crate::{Error, SqlState};

/// Why a path has no result.
pub(super) enum Fault {
    /// The document is not as the path expects: conditions and silent calls ignore it.
    OfDocument(Error),
    /// The statement ends: it is canceled, or the path is not supported.
    OfStatement(Error),
}

type Outcome<T> = std::result::Result<T, Fault>;
type Items<'a> = Vec<Cow<'a, Json>>;

/// A condition on two items; `None` if it is unknown.
type Holds<'session, 'a> =
    dyn FnMut(&mut EvaluationContext<'session>, &Json, &Json) -> crate::Result<Option<bool>> + 'a;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::OfStatement(error)
    }
}

fn fault(state: SqlState, message: impl Into<String>) -> Fault {
    Fault::OfDocument(Error::new(state, message))
}

const MEMBER_NOT_FOUND: SqlState = SqlState("2203A");
const ARRAY_NOT_FOUND: SqlState = SqlState("22039");
const OBJECT_NOT_FOUND: SqlState = SqlState("2203C");
const INVALID_SUBSCRIPT: SqlState = SqlState("22033");
const NON_NUMERIC: SqlState = SqlState("22036");
const SINGLETON_REQUIRED: SqlState = SqlState("22038");
const NUMBER_NOT_FOUND: SqlState = SqlState("2203B");

/// An evaluation of a path.
pub(super) struct Evaluation<'a, 'context, 'session> {
    is_strict: bool,
    document: &'a Json,
    variables: &'a [(SmolStr, Json)],
    context: &'context mut EvaluationContext<'session>,
    /// Length of the array whose subscripts are evaluated.
    length: Option<usize>,
}

/// A truth value as an item: unknown is null.
fn truth_value(truth: Option<bool>) -> Json {
    truth.map_or(Json::Null, Json::Bool)
}

/// The elements of an item that is an array.
fn elements<'a>(item: &Cow<'a, Json>) -> Option<Items<'a>> {
    match item {
        Cow::Borrowed(Json::Array(elements)) => Some(elements.iter().map(Cow::Borrowed).collect()),
        Cow::Owned(Json::Array(elements)) => {
            Some(elements.iter().cloned().map(Cow::Owned).collect())
        }
        Cow::Borrowed(_) | Cow::Owned(_) => None,
    }
}

/// The value of a key, if the item is an object that has it.
fn member<'a>(item: &Cow<'a, Json>, wanted: &str) -> Option<Cow<'a, Json>> {
    let find = |pairs: &[(SmolStr, Json)]| pairs.iter().position(|(key, _)| key == wanted);
    match item {
        Cow::Borrowed(Json::Object(pairs)) => find(pairs).map(|at| Cow::Borrowed(&pairs[at].1)),
        Cow::Owned(Json::Object(pairs)) => find(pairs).map(|at| Cow::Owned(pairs[at].1.clone())),
        Cow::Borrowed(_) | Cow::Owned(_) => None,
    }
}

/// The values of an item that is an object.
fn members<'a>(item: &Cow<'a, Json>) -> Option<Items<'a>> {
    match item {
        Cow::Borrowed(Json::Object(pairs)) => Some(
            pairs
                .iter()
                .map(|(_, value)| Cow::Borrowed(value))
                .collect(),
        ),
        Cow::Owned(Json::Object(pairs)) => Some(
            pairs
                .iter()
                .map(|(_, value)| Cow::Owned(value.clone()))
                .collect(),
        ),
        Cow::Borrowed(_) | Cow::Owned(_) => None,
    }
}

const fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

impl<'a, 'context, 'session> Evaluation<'a, 'context, 'session> {
    pub(super) fn new(
        path: &Path,
        document: &'a Json,
        variables: &'a [(SmolStr, Json)],
        context: &'context mut EvaluationContext<'session>,
    ) -> Self {
        Self {
            is_strict: path.is_strict,
            document,
            variables,
            context,
            length: None,
        }
    }

    /// The items that a node finds, where `current` is the item that `@` stands for.
    pub(super) fn items(&mut self, node: &Node, current: &Cow<'a, Json>) -> Outcome<Items<'a>> {
        with_stack(|| self.items_here(node, current))
    }

    fn items_here(&mut self, node: &Node, current: &Cow<'a, Json>) -> Outcome<Items<'a>> {
        self.context.work(ROW)?;
        let one = |json: Json| Ok(vec![Cow::Owned(json)]);
        match node {
            Node::Root => Ok(vec![Cow::Borrowed(self.document)]),
            Node::Current => Ok(vec![current.clone()]),
            Node::Variable(name) => match self.variables.iter().find(|(known, _)| known == name) {
                Some((_, value)) => Ok(vec![Cow::Borrowed(value)]),
                None => Err(Fault::OfStatement(Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("could not find jsonpath variable \"{name}\""),
                ))),
            },
            Node::Null => one(Json::Null),
            Node::Bool(truth) => one(Json::Bool(*truth)),
            Node::Number(number) => one(Json::Number(number.clone())),
            Node::String(text) => one(Json::text(text.as_str())),
            Node::Last => match self.length {
                Some(length) => one(Json::Number(Numeric::from(length as i64 - 1))),
                None => Err(fault(
                    INVALID_SUBSCRIPT,
                    "LAST outside of an array subscript",
                )),
            },
            Node::Key(of, key) => self.key(of, key, current),
            Node::AnyKey(of) => {
                let mut found = Vec::new();
                for item in self.unwrapped(of, current)? {
                    match members(&item) {
                        Some(values) => self.extend(&mut found, values)?,
                        None if self.is_strict => {
                            return Err(fault(
                                OBJECT_NOT_FOUND,
                                "jsonpath wildcard member accessor can only be applied to an object",
                            ));
                        }
                        None => {}
                    }
                }
                Ok(found)
            }
            Node::AnyElement(of) => {
                let mut found = Vec::new();
                for item in self.items(of, current)? {
                    match elements(&item) {
                        Some(values) => self.extend(&mut found, values)?,
                        None if self.is_strict => {
                            return Err(fault(
                                ARRAY_NOT_FOUND,
                                "jsonpath wildcard array accessor can only be applied to an array",
                            ));
                        }
                        None => found.push(item),
                    }
                }
                Ok(found)
            }
            Node::Elements(of, list) => self.elements(of, list, current),
            Node::AnyLevel(of, first, last) => {
                let mut found = Vec::new();
                for item in self.items(of, current)? {
                    self.levels(item, 0, (*first, *last), &mut found)?;
                }
                Ok(found)
            }
            Node::Method(of, method) => self.method(of, *method, current),
            Node::Filter(of, condition) => {
                let mut found = Vec::new();
                for item in self.unwrapped(of, current)? {
                    if self.truth(condition, &item)? == Some(true) {
                        found.push(item);
                    }
                }
                Ok(found)
            }
            Node::Sign(minus, of) => {
                let mut found = Vec::new();
                for item in self.unwrapped(of, current)? {
                    let Json::Number(number) = &*item else {
                        return Err(fault(
                            NUMBER_NOT_FOUND,
                            format!(
                                "operand of unary jsonpath operator {} is not a numeric value",
                                if *minus { '-' } else { '+' }
                            ),
                        ));
                    };
                    let number = if *minus {
                        number.negate()
                    } else {
                        number.clone()
                    };
                    found.push(Cow::Owned(Json::Number(number)));
                }
                Ok(found)
            }
            Node::Binary(operator, operands) if !operator.is_condition() => {
                let left = self.number(&operands[0], "left", *operator, current)?;
                let right = self.number(&operands[1], "right", *operator, current)?;
                let result = match operator {
                    Operator::Add => left.add(&right),
                    Operator::Subtract => left.subtract(&right),
                    Operator::Multiply => left.multiply(&right),
                    Operator::Divide => left.divide(&right),
                    _ => left.remainder(&right),
                };
                one(Json::Number(result.map_err(Fault::OfDocument)?))
            }
            Node::Binary(..)
            | Node::Not(_)
            | Node::IsUnknown(_)
            | Node::Exists(_)
            | Node::LikeRegex(..) => one(truth_value(self.truth(node, current)?)),
        }
    }

    fn extend(&mut self, found: &mut Items<'a>, items: Items<'a>) -> Outcome<()> {
        self.context.work(items.len() * ROW)?;
        found.extend(items);
        Ok(())
    }

    /// The items of a node; in lax mode, arrays are taken apart.
    fn unwrapped(&mut self, node: &Node, current: &Cow<'a, Json>) -> Outcome<Items<'a>> {
        let items = self.items(node, current)?;
        if self.is_strict {
            return Ok(items);
        }
        self.flat(items)
    }

    fn flat(&mut self, items: Items<'a>) -> Outcome<Items<'a>> {
        if !items.iter().any(|item| matches!(&**item, Json::Array(_))) {
            return Ok(items);
        }
        let mut found = Vec::with_capacity(items.len());
        for item in items {
            match elements(&item) {
                Some(values) => self.extend(&mut found, values)?,
                None => found.push(item),
            }
        }
        Ok(found)
    }

    fn key(&mut self, of: &Node, key: &str, current: &Cow<'a, Json>) -> Outcome<Items<'a>> {
        let mut found = Vec::new();
        for item in self.unwrapped(of, current)? {
            match member(&item, key) {
                Some(value) => found.push(value),
                None if !self.is_strict => {}
                None if matches!(&*item, Json::Object(_)) => {
                    return Err(fault(
                        MEMBER_NOT_FOUND,
                        format!("JSON object does not contain key \"{key}\""),
                    ));
                }
                None => {
                    return Err(fault(
                        MEMBER_NOT_FOUND,
                        "jsonpath member accessor can only be applied to an object",
                    ));
                }
            }
        }
        Ok(found)
    }

    fn elements(
        &mut self,
        of: &Node,
        list: &[(Node, Option<Node>)],
        current: &Cow<'a, Json>,
    ) -> Outcome<Items<'a>> {
        let mut found = Vec::new();
        for item in self.items(of, current)? {
            let all = match elements(&item) {
                Some(all) => all,
                None if self.is_strict => {
                    return Err(fault(
                        ARRAY_NOT_FOUND,
                        "jsonpath array accessor can only be applied to an array",
                    ));
                }
                None => vec![item],
            };
            self.context.work(all.len() * ROW)?;
            let outer = self.length.replace(all.len());
            for (from, to) in list {
                let first = self.subscript(from, current)?;
                let last = match to {
                    Some(to) => self.subscript(to, current)?,
                    None => first,
                };
                let length = all.len() as i64;
                if self.is_strict && (first < 0 || first > last || last >= length) {
                    return Err(fault(
                        INVALID_SUBSCRIPT,
                        "jsonpath array subscript is out of bounds",
                    ));
                }
                for at in first.max(0)..=last.min(length - 1) {
                    self.context.work(ROW)?;
                    found.extend(all.get(at as usize).cloned());
                }
            }
            self.length = outer;
        }
        Ok(found)
    }

    fn subscript(&mut self, node: &Node, current: &Cow<'a, Json>) -> Outcome<i64> {
        let items = self.items(node, current)?;
        let [item] = items.as_slice() else {
            return Err(fault(
                INVALID_SUBSCRIPT,
                "jsonpath array subscript is not a single numeric value",
            ));
        };
        let Json::Number(number) = &**item else {
            return Err(fault(
                INVALID_SUBSCRIPT,
                "jsonpath array subscript is not a single numeric value",
            ));
        };
        number
            .truncate(0)
            .to_i64()
            .filter(|number| i32::try_from(*number).is_ok())
            .ok_or_else(|| {
                fault(
                    INVALID_SUBSCRIPT,
                    "jsonpath array subscript is out of integer range",
                )
            })
    }

    /// Appends an item and what is in it, from level `first` to level `last`.
    fn levels(
        &mut self,
        item: Cow<'a, Json>,
        level: u32,
        range: (Option<u32>, Option<u32>),
        found: &mut Items<'a>,
    ) -> Outcome<()> {
        self.context.work(ROW)?;
        let inner = members(&item)
            .or_else(|| elements(&item))
            .unwrap_or_default();
        let (first, last) = range;
        let is_in = match first {
            Some(first) => level >= first && last.is_none_or(|last| level <= last),
            // `last` is the level of what has nothing in it.
            None => inner.is_empty() && item.is_scalar(),
        };
        if is_in {
            found.push(item);
        }
        if last.is_none_or(|last| level < last) {
            for item in inner {
                with_stack(|| self.levels(item, level + 1, range, found))?;
            }
        }
        Ok(())
    }

    fn method(&mut self, of: &Node, method: Method, current: &Cow<'a, Json>) -> Outcome<Items<'a>> {
        let items = match method {
            Method::Type | Method::Size => self.items(of, current)?,
            Method::Abs | Method::Floor | Method::Ceiling | Method::Double => {
                self.unwrapped(of, current)?
            }
        };
        let mut found = Vec::with_capacity(items.len());
        for item in items {
            let result = match (method, &*item) {
                (Method::Type, item) => Json::text(kind(item)),
                (Method::Size, Json::Array(elements)) => {
                    Json::Number(Numeric::from(elements.len() as i64))
                }
                (Method::Size, _) if self.is_strict => {
                    return Err(fault(
                        ARRAY_NOT_FOUND,
                        "jsonpath item method .size() can only be applied to an array",
                    ));
                }
                (Method::Size, _) => Json::Number(Numeric::from(1_i64)),
                (Method::Double, item) => Json::Number(double(item)?),
                (Method::Abs, Json::Number(number)) => Json::Number(number.abs()),
                (Method::Floor, Json::Number(number)) => Json::Number(number.floor()),
                (Method::Ceiling, Json::Number(number)) => Json::Number(number.ceil()),
                (Method::Abs | Method::Floor | Method::Ceiling, _) => {
                    return Err(fault(
                        NON_NUMERIC,
                        format!(
                            "jsonpath item method .{}() can only be applied to a numeric value",
                            method.name()
                        ),
                    ));
                }
            };
            found.push(Cow::Owned(result));
        }
        Ok(found)
    }

    /// The operand of an arithmetic operator.
    fn number(
        &mut self,
        node: &Node,
        side: &str,
        operator: Operator,
        current: &Cow<'a, Json>,
    ) -> Outcome<Numeric> {
        let items = self.unwrapped(node, current)?;
        if let [item] = items.as_slice()
            && let Json::Number(number) = &**item
        {
            return Ok(number.clone());
        }
        Err(fault(
            SINGLETON_REQUIRED,
            format!(
                "{side} operand of jsonpath operator {} is not a single numeric value",
                operator.symbol()
            ),
        ))
    }

    /// The value of a condition; `None` if it is unknown.
    fn truth(&mut self, node: &Node, current: &Cow<'a, Json>) -> Outcome<Option<bool>> {
        with_stack(|| self.truth_here(node, current))
    }

    fn truth_here(&mut self, node: &Node, current: &Cow<'a, Json>) -> Outcome<Option<bool>> {
        match node {
            Node::Binary(operator @ (Operator::And | Operator::Or), operands) => {
                let decides = *operator == Operator::Or;
                let left = self.truth(&operands[0], current)?;
                if left == Some(decides) {
                    return Ok(left);
                }
                let right = self.truth(&operands[1], current)?;
                Ok(match (left, right) {
                    (_, Some(right)) if right == decides => Some(decides),
                    (Some(_), Some(_)) => Some(!decides),
                    _ => None,
                })
            }
            Node::Not(of) => Ok(self.truth(of, current)?.map(|truth| !truth)),
            Node::IsUnknown(of) => Ok(Some(self.truth(of, current)?.is_none())),
            Node::Exists(of) => Ok(self
                .tried(of, current, false)?
                .map(|items| !items.is_empty())),
            Node::Binary(Operator::StartsWith, operands) => {
                let Some(left) = self.tried(&operands[0], current, true)? else {
                    return Ok(None);
                };
                let Some(right) = self.tried(&operands[1], current, false)? else {
                    return Ok(None);
                };
                self.any_pair(&left, &right, &mut |_, left, right| {
                    Ok(match (left, right) {
                        (Json::String(left), Json::String(right)) => {
                            Some(left.starts_with(right.as_str()))
                        }
                        _ => None,
                    })
                })
            }
            Node::Binary(operator, operands) => {
                let Some(left) = self.tried(&operands[0], current, true)? else {
                    return Ok(None);
                };
                let Some(right) = self.tried(&operands[1], current, true)? else {
                    return Ok(None);
                };
                self.any_pair(&left, &right, &mut |_, left, right| {
                    Ok(compare(*operator, left, right))
                })
            }
            Node::LikeRegex(of, pattern, flags) => {
                let Some(left) = self.tried(of, current, true)? else {
                    return Ok(None);
                };
                let pattern = regex_of(pattern, flags)?;
                let ignore_case = flags.contains('i');
                let nothing = [Cow::Owned(Json::Null)];
                self.any_pair(&left, &nothing, &mut |context, left, _| {
                    let Json::String(text) = left else {
                        return Ok(None);
                    };
                    let regex = regex::compiled(&pattern, ignore_case, context)?;
                    let found = regex.captures(text, &mut |bytes| context.work(bytes))?;
                    Ok(Some(found.is_some()))
                })
            }
            _ => Ok(None),
        }
    }

    /// The items of a condition's operand; `None` if they cannot be found.
    fn tried(
        &mut self,
        node: &Node,
        current: &Cow<'a, Json>,
        unwraps: bool,
    ) -> Outcome<Option<Items<'a>>> {
        let items = match unwraps {
            true => self.unwrapped(node, current),
            false => self.items(node, current),
        };
        match items {
            Ok(items) => Ok(Some(items)),
            Err(Fault::OfDocument(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Whether a condition holds for a pair of items. In strict mode all pairs are looked at, and
    /// one that is unknown decides; in lax mode the first that is true does.
    fn any_pair(
        &mut self,
        left: &[Cow<'a, Json>],
        right: &[Cow<'_, Json>],
        holds: &mut Holds<'session, '_>,
    ) -> Outcome<Option<bool>> {
        let (mut found, mut unknown) = (false, false);
        for left in left {
            for right in right {
                self.context.work(ROW)?;
                match holds(self.context, left, right)? {
                    None if self.is_strict => return Ok(None),
                    None => unknown = true,
                    Some(true) if !self.is_strict => return Ok(Some(true)),
                    Some(true) => found = true,
                    Some(false) => {}
                }
            }
        }
        Ok(match (found, unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        })
    }
}

/// Compares two items; `None` if they cannot be compared.
fn compare(operator: Operator, left: &Json, right: &Json) -> Option<bool> {
    let order = match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
        (Json::Number(left), Json::Number(right)) => left.cmp(right),
        (Json::String(left), Json::String(right)) => left.as_bytes().cmp(right.as_bytes()),
        // Null is different from everything else, and not less or greater.
        (Json::Null, _) | (_, Json::Null) => return Some(operator == Operator::NotEqual),
        _ => return None,
    };
    Some(match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        _ => return None,
    })
}

/// The method `.double()`.
fn double(item: &Json) -> Outcome<Numeric> {
    let of_string = || {
        fault(
            NON_NUMERIC,
            "string argument of jsonpath item method .double() is not a valid representation of a double precision number",
        )
    };
    let parsed: f64 = match item {
        Json::Number(number) => number.to_f64(),
        Json::String(text) => text.trim().parse().map_err(|_| of_string())?,
        _ => {
            return Err(fault(
                NON_NUMERIC,
                "jsonpath item method .double() can only be applied to a string or numeric value",
            ));
        }
    };
    if !parsed.is_finite() {
        return Err(match item {
            Json::String(_) => fault(
                NON_NUMERIC,
                "NaN or Infinity is not allowed for jsonpath item method .double()",
            ),
            _ => fault(
                NON_NUMERIC,
                "numeric argument of jsonpath item method .double() is out of range for type double precision",
            ),
        });
    }
    Numeric::from_f64(parsed, 15).map_err(Fault::OfDocument)
}

/// The regular expression of a `like_regex`, whose flag `q` quotes all of it.
fn regex_of(pattern: &str, flags: &str) -> Outcome<String> {
    if let Some(other) = flags.chars().find(|flag| !matches!(flag, 'i' | 'q' | 's')) {
        return Err(Fault::OfStatement(Error::unsupported(format_args!(
            "the flag \"{other}\" of like_regex"
        ))));
    }
    if !flags.contains('q') {
        return Ok(pattern.to_owned());
    }
    let mut quoted = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        if !character.is_alphanumeric() && character.is_ascii() {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    Ok(quoted)
}

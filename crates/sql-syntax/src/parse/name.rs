//! Names, by the grammar's four classes of keywords, and the constants that clauses take.

use smol_str::SmolStr;

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::{Category, Keyword as K};
use crate::lexer::token::TokenKind;
use crate::lexer::{number, string};
use crate::tree::{Literal, Name, Operator, Path, Relation, Role};

impl Parser<'_> {
    /// Whether a token could be a name of one of these categories. NULLS in front of FIRST or
    /// LAST is never a name.
    fn is_name_at(&self, ahead: usize, categories: &[Category]) -> bool {
        let token = self.peek(ahead);
        match token.kind {
            TokenKind::Name => true,
            TokenKind::Keyword => {
                categories.contains(&token.keyword.category())
                    && !(token.keyword == K::Nulls && self.is_nulls_order(ahead))
            }
            _ => false,
        }
    }

    fn is_nulls_order(&self, ahead: usize) -> bool {
        matches!(self.peek(ahead + 1).keyword, K::First | K::Last)
    }

    /// `ColId`: a column or a table.
    pub(super) fn is_column_name(&self, ahead: usize) -> bool {
        self.is_name_at(ahead, &[Category::Unreserved, Category::ColumnName])
    }

    pub(super) fn is_type_or_function_name(&self, ahead: usize) -> bool {
        self.is_name_at(ahead, &[Category::Unreserved, Category::TypeOrFunction])
    }

    pub(super) fn is_non_reserved(&self, ahead: usize) -> bool {
        use Category::{ColumnName, TypeOrFunction, Unreserved};
        self.is_name_at(ahead, &[Unreserved, ColumnName, TypeOrFunction])
    }

    /// The current token as a name, whatever it is.
    fn take_name(&mut self) -> Parsed<Name> {
        let token = self.token();
        let text = match token.kind {
            TokenKind::Keyword => SmolStr::new_static(token.keyword.text()),
            _ => string::name(token.text(self.text), token.start)?,
        };
        self.bump();
        Ok(Name {
            text,
            at: token.start,
        })
    }

    fn name_if(&mut self, fits: bool) -> Parsed<Name> {
        if fits {
            self.take_name()
        } else {
            Err(self.error())
        }
    }

    pub(super) fn column_name(&mut self) -> Parsed<Name> {
        self.name_if(self.is_column_name(0))
    }

    pub(super) fn type_or_function_name(&mut self) -> Parsed<Name> {
        self.name_if(self.is_type_or_function_name(0))
    }

    pub(super) fn non_reserved(&mut self) -> Parsed<Name> {
        self.name_if(self.is_non_reserved(0))
    }

    /// `ColLabel`: any word.
    pub(super) fn label(&mut self) -> Parsed<Name> {
        self.name_if(matches!(self.kind(), TokenKind::Name | TokenKind::Keyword))
    }

    /// A label without AS, if there is one.
    pub(super) fn bare_label(&mut self) -> Parsed<Option<Name>> {
        let token = self.token();
        match token.kind {
            TokenKind::Name => self.take_name().map(Some),
            TokenKind::Keyword if token.keyword.is_bare_label() => {
                if token.keyword == K::Nulls && self.is_nulls_order(0) {
                    return Ok(None);
                }
                self.take_name().map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn column_names(&mut self) -> Parsed<Vec<Name>> {
        self.bracketed_list(Self::column_name)
    }

    /// `opt_column_list`
    pub(super) fn optional_column_names(&mut self) -> Parsed<Vec<Name>> {
        if self.kind() == TokenKind::Open {
            self.column_names()
        } else {
            Ok(Vec::new())
        }
    }

    /// `any_name`
    pub(super) fn any_name(&mut self) -> Parsed<Path> {
        let first = self.column_name()?;
        self.path_behind(first)
    }

    pub(super) fn path_behind(&mut self, first: Name) -> Parsed<Path> {
        let mut path = vec![first];
        while self.eat_kind(TokenKind::Dot) {
            path.push(self.label()?);
        }
        Ok(Path(path))
    }

    /// `qualified_name`: a table, with a schema and a database at most.
    pub(super) fn qualified_name(&mut self) -> Parsed<Path> {
        let path = self.any_name()?;
        self.check_qualified(&path)?;
        Ok(path)
    }

    pub(super) fn check_qualified(&self, path: &Path) -> Parsed<()> {
        if path.0.len() <= 3 {
            return Ok(());
        }
        let shown: Vec<&str> = path.0.iter().map(|name| name.text.as_str()).collect();
        let message = format!(
            "improper qualified name (too many dotted names): {}",
            shown.join(".")
        );
        Err(SyntaxError::new(Fault::Syntax, message, path.at()))
    }

    /// `func_name`
    pub(super) fn function_name(&mut self) -> Parsed<Path> {
        if self.is_kind_at(1, TokenKind::Dot) {
            return self.any_name();
        }
        Ok(Path(vec![self.type_or_function_name()?]))
    }

    /// `relation_expr`
    pub(super) fn relation(&mut self) -> Parsed<Relation> {
        if self.eat(K::Only) {
            let name = if self.kind() == TokenKind::Open {
                self.in_brackets(Self::qualified_name)?
            } else {
                self.qualified_name()?
            };
            return Ok(Relation { name, only: true });
        }
        let name = self.qualified_name()?;
        self.eat_kind(TokenKind::Star);
        Ok(Relation { name, only: false })
    }

    /// `RoleSpec`
    pub(super) fn role(&mut self) -> Parsed<Role> {
        let token = self.token();
        let special = match token.keyword {
            K::CurrentRole => Some(Role::CurrentRole),
            K::CurrentUser => Some(Role::CurrentUser),
            K::SessionUser => Some(Role::SessionUser),
            _ => None,
        };
        if let Some(role) = special {
            self.bump();
            return Ok(role);
        }
        let name = self.non_reserved()?;
        match name.text.as_str() {
            "public" => Ok(Role::Public),
            "none" => {
                let message = "role name \"none\" is reserved";
                Err(SyntaxError::new(Fault::ReservedName, message, token.start))
            }
            _ => Ok(Role::Named(name)),
        }
    }

    pub(super) fn roles(&mut self) -> Parsed<Vec<Role>> {
        self.list(Self::role)
    }

    /// `RoleId`: the name of a role that is made or renamed.
    pub(super) fn role_id(&mut self) -> Parsed<Name> {
        let token = self.token();
        let refuse = |word: &str| {
            let message = if word == "public" {
                "role name \"public\" is reserved".to_owned()
            } else {
                format!("{word} cannot be used as a role name here")
            };
            let fault = if word == "public" {
                Fault::ReservedName
            } else {
                Fault::InvalidParameter
            };
            Err(SyntaxError::new(fault, message, token.start))
        };
        match self.role()? {
            Role::Named(name) => Ok(name),
            Role::Public => refuse("public"),
            Role::CurrentRole => refuse("CURRENT_ROLE"),
            Role::CurrentUser => refuse("CURRENT_USER"),
            Role::SessionUser => refuse("SESSION_USER"),
        }
    }

    /// `Sconst`
    pub(super) fn string(&mut self) -> Parsed<String> {
        if self.kind() != TokenKind::String {
            return Err(self.error());
        }
        let value = string::decode(self.token_text(), self.pos())?;
        self.bump();
        Ok(value)
    }

    /// `NonReservedWord_or_Sconst`
    pub(super) fn word_or_string(&mut self) -> Parsed<String> {
        if self.kind() == TokenKind::String {
            self.string()
        } else {
            Ok(self.non_reserved()?.text.into())
        }
    }

    /// `opt_boolean_or_string`
    pub(super) fn boolean_or_string(&mut self) -> Parsed<String> {
        let word = self.keyword();
        if matches!(word, K::True | K::False | K::On) {
            self.bump();
            return Ok(word.text().to_owned());
        }
        self.word_or_string()
    }

    /// `Iconst`
    pub(super) fn integer(&mut self) -> Parsed<i32> {
        let value = match self.kind() {
            TokenKind::Integer => number::small(self.token_text()),
            _ => None,
        };
        let value = value.ok_or_else(|| self.error())?;
        self.bump();
        Ok(value)
    }

    /// `SignedIconst`
    pub(super) fn signed_integer(&mut self) -> Parsed<i32> {
        if self.eat_kind(TokenKind::Minus) {
            return Ok(-self.integer()?);
        }
        self.eat_kind(TokenKind::Plus);
        self.integer()
    }

    /// `NumericOnly`
    pub(super) fn numeric(&mut self) -> Parsed<Literal> {
        let minus = self.eat_kind(TokenKind::Minus);
        if !minus {
            self.eat_kind(TokenKind::Plus);
        }
        match self.kind() {
            TokenKind::Integer => {
                let value = self.integer()?;
                Ok(Literal::Integer(if minus { -value } else { value }))
            }
            TokenKind::Number => {
                let text = self.token_text();
                let text = if minus {
                    SmolStr::from(format!("-{text}"))
                } else {
                    text.into()
                };
                self.bump();
                Ok(Literal::Number(text))
            }
            _ => Err(self.error()),
        }
    }

    /// Whether a number begins here, where no operator may stand.
    pub(super) fn is_numeric(&self) -> bool {
        matches!(
            self.kind(),
            TokenKind::Integer | TokenKind::Number | TokenKind::Plus | TokenKind::Minus
        )
    }

    /// The symbol of the current token, if it is an operator (`all_Op`).
    pub(super) fn operator_symbol(&self) -> Option<SmolStr> {
        let text = match self.kind() {
            TokenKind::Operator => return Some(self.token_text().into()),
            TokenKind::Plus => "+",
            TokenKind::Minus => "-",
            TokenKind::Star => "*",
            TokenKind::Slash => "/",
            TokenKind::Percent => "%",
            TokenKind::Caret => "^",
            TokenKind::Less => "<",
            TokenKind::Greater => ">",
            TokenKind::Equal => "=",
            TokenKind::LessEquals => "<=",
            TokenKind::GreaterEquals => ">=",
            TokenKind::NotEquals => "<>",
            _ => return None,
        };
        Some(SmolStr::new_static(text))
    }

    /// `any_operator`: with qualifiers, without OPERATOR.
    pub(super) fn any_operator(&mut self) -> Parsed<Operator> {
        let at = self.pos();
        let mut schema = Vec::new();
        loop {
            if let Some(symbol) = self.operator_symbol() {
                self.bump();
                return Ok(Operator { schema, symbol, at });
            }
            schema.push(self.column_name()?);
            self.expect_kind(TokenKind::Dot)?;
        }
    }

    /// `qual_all_Op`
    pub(super) fn qualified_operator(&mut self) -> Parsed<Operator> {
        if self.is(K::Operator) && self.is_kind_at(1, TokenKind::Open) {
            let at = self.pos();
            self.bump();
            let operator = self.in_brackets(Self::any_operator)?;
            return Ok(Operator { at, ..operator });
        }
        let at = self.pos();
        let symbol = self.operator_symbol().ok_or_else(|| self.error())?;
        self.bump();
        Ok(Operator {
            schema: Vec::new(),
            symbol,
            at,
        })
    }

    /// IF NOT EXISTS
    pub(super) fn if_not_exists(&mut self) -> bool {
        self.eat_all(&[K::If, K::Not, K::Exists])
    }

    /// IF EXISTS
    pub(super) fn if_exists(&mut self) -> bool {
        self.eat_all(&[K::If, K::Exists])
    }
}

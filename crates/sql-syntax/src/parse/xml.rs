//! SQL/XML: its functions, and XMLTABLE in FROM.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Expr, ExprKind, Literal, Name, Standalone, TableFactor, Xml, XmlColumn, XmlTable,
};

impl Parser<'_> {
    /// What is in the brackets of one of the functions.
    pub(super) fn xml(&mut self, word: K) -> Parsed<Xml> {
        Ok(match word {
            K::Xmlconcat => Xml::Concat(self.exprs()?),
            K::Xmlelement => {
                let name = self.xml_name()?;
                let mut attributes = Vec::new();
                let mut content = Vec::new();
                if self.eat_kind(TokenKind::Comma) {
                    let mut more = true;
                    if self.eat(K::Xmlattributes) {
                        attributes = self.in_brackets(Self::xml_attributes)?;
                        more = self.eat_kind(TokenKind::Comma);
                    }
                    if more {
                        content = self.exprs()?;
                    }
                }
                Xml::Element {
                    name,
                    attributes,
                    content,
                }
            }
            K::Xmlexists => {
                let path = self.primary()?;
                Xml::Exists(path, self.xml_passing()?)
            }
            K::Xmlforest => Xml::Forest(self.xml_attributes()?),
            K::Xmlparse => {
                let document = self.xml_document()?;
                let text = self.expr()?;
                let preserve = self.eat(K::Preserve);
                if preserve || self.eat(K::Strip) {
                    self.expect(K::Whitespace)?;
                }
                Xml::Parse {
                    document,
                    text,
                    preserve,
                }
            }
            K::Xmlpi => {
                let name = self.xml_name()?;
                let content = if self.eat_kind(TokenKind::Comma) {
                    Some(self.expr()?)
                } else {
                    None
                };
                Xml::Instruction(name, content)
            }
            K::Xmlroot => self.xml_root()?,
            _ => {
                let document = self.xml_document()?;
                let value = self.expr()?;
                self.expect(K::As)?;
                Xml::Serialize {
                    document,
                    value,
                    target: self.simple_type_name()?,
                }
            }
        })
    }

    fn xml_root(&mut self) -> Parsed<Xml> {
        let document = self.expr()?;
        self.expect_kind(TokenKind::Comma)?;
        self.expect(K::Version)?;
        let version = if self.eat_all(&[K::No, K::Value]) {
            None
        } else {
            Some(self.expr()?)
        };
        let mut standalone = Standalone::Omitted;
        if self.eat_kind(TokenKind::Comma) {
            self.expect(K::Standalone)?;
            standalone = if self.eat(K::Yes) {
                Standalone::Yes
            } else {
                self.expect(K::No)?;
                if self.eat(K::Value) {
                    Standalone::NoValue
                } else {
                    Standalone::No
                }
            };
        }
        Ok(Xml::Root {
            document,
            version,
            standalone,
        })
    }

    /// DOCUMENT, or else CONTENT.
    pub(super) fn xml_document(&mut self) -> Parsed<bool> {
        if self.eat(K::Document) {
            return Ok(true);
        }
        self.expect(K::Content)?;
        Ok(false)
    }

    fn xml_attributes(&mut self) -> Parsed<Vec<(Expr, Option<Name>)>> {
        self.list(|parser| {
            let value = parser.expr()?;
            let name = if parser.eat(K::As) {
                Some(parser.label()?)
            } else {
                None
            };
            Ok((value, name))
        })
    }

    fn xml_passing(&mut self) -> Parsed<Expr> {
        self.expect(K::Passing)?;
        self.xml_mechanism()?;
        let document = self.primary()?;
        self.xml_mechanism()?;
        Ok(document)
    }

    /// BY REF and BY VALUE change nothing.
    fn xml_mechanism(&mut self) -> Parsed<()> {
        if self.is(K::By) {
            self.bump();
            if !self.eat(K::Ref) {
                self.expect(K::Value)?;
            }
        }
        Ok(())
    }

    /// XMLTABLE, behind LATERAL or not.
    pub(super) fn xml_table(&mut self, lateral: bool) -> Parsed<TableFactor> {
        self.bump();
        self.expect_kind(TokenKind::Open)?;
        let namespaces = if self.eat(K::Xmlnamespaces) {
            let namespaces = self.bracketed_list(|parser| {
                if parser.eat(K::Default) {
                    return Ok((parser.restricted_expr()?, None));
                }
                let value = parser.restricted_expr()?;
                parser.expect(K::As)?;
                Ok((value, Some(parser.label()?)))
            })?;
            self.expect_kind(TokenKind::Comma)?;
            namespaces
        } else {
            Vec::new()
        };
        let row = self.primary()?;
        let document = self.xml_passing()?;
        self.expect(K::Columns)?;
        let columns = self.list(Self::xml_column)?;
        self.expect_kind(TokenKind::Close)?;
        Ok(TableFactor::Xml(Box::new(XmlTable {
            lateral,
            namespaces,
            row,
            document,
            columns,
            alias: self.optional_alias()?,
        })))
    }

    fn xml_column(&mut self) -> Parsed<XmlColumn> {
        let name = self.column_name()?;
        let mut column = XmlColumn {
            name,
            kind: None,
            path: None,
            default: None,
            not_null: None,
        };
        if self.eat_all(&[K::For, K::Ordinality]) {
            return Ok(column);
        }
        column.kind = Some(self.type_name()?);
        loop {
            let at = self.pos();
            let refuse = |message: String| Err(SyntaxError::new(Fault::Syntax, message, at));
            if self.eat(K::Default) {
                if column.default.replace(self.restricted_expr()?).is_some() {
                    return refuse("only one DEFAULT value is allowed".into());
                }
            } else if self.are(&[K::Not, K::Null]) || self.is(K::Null) {
                let not_null = self.eat(K::Not);
                self.bump();
                if column.not_null.replace(not_null).is_some() {
                    let name = &column.name.text;
                    return refuse(format!(
                        "conflicting or redundant NULL / NOT NULL declarations for column \"{name}\""
                    ));
                }
            } else if self.kind() == TokenKind::Name {
                let option = self.column_name()?;
                let value = self.restricted_expr()?;
                if option.text != "path" {
                    return refuse(format!("unrecognized column option \"{}\"", option.text));
                }
                if column.path.replace(value).is_some() {
                    return refuse("only one PATH value per column is allowed".into());
                }
            } else {
                return Ok(column);
            }
        }
    }

    /// A constant without an expression around it, of a CYCLE's mark.
    pub(super) fn constant(&mut self) -> Parsed<Expr> {
        let at = self.pos();
        let expr = self.primary()?;
        match expr.kind {
            ExprKind::Literal(_) => Ok(expr),
            ExprKind::Cast(ref cast) if is_string(&cast.operand) => Ok(expr),
            _ => Err(SyntaxError::new(
                Fault::Syntax,
                format!("syntax error at or near \"{}\"", self.token_text()),
                at,
            )),
        }
    }
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Literal(Literal::String(_)))
}

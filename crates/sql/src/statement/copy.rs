//! Parser for COPY, in its present and its former syntax.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Argument, Command, CopyCommand, CopyOption, CopySource};
use super::words::{Parse, eat, fold, is, need, next_is, options, unexpected, value, word};
use crate::error::Error;

/// Parses the rest of a COPY statement.
pub(super) fn copy(parser: &mut Parser<'_>) -> Parse<Command> {
    let binary = eat(parser, "binary");
    let source = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        CopySource::Query(query)
    } else {
        let name = parser.parse_object_name(false)?;
        let mut columns = Vec::new();
        if parser.consume_token(&Token::LParen) {
            columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
        }
        CopySource::Table { name, columns }
    };
    let from = eat(parser, "from");
    if !from {
        need(parser, "to")?;
    } else if matches!(source, CopySource::Query(_)) {
        return unexpected(parser, "TO");
    }
    if !eat(parser, "stdin") && !eat(parser, "stdout") {
        return Err(match parser.peek_token().token {
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => {
                Error::unsupported("COPY from or to a file of the server")
                    .with_hint("Use STDIN or STDOUT, or psql's \\copy.")
                    .into()
            }
            ref token if is(token, "program") => {
                Error::unsupported("COPY from or to a program of the server")
                    .with_hint("Use STDIN or STDOUT, or psql's \\copy.")
                    .into()
            }
            _ => return unexpected(parser, "STDIN or STDOUT"),
        });
    }
    eat(parser, "with");
    let mut list = if parser.peek_token().token == Token::LParen {
        options(parser)?
    } else {
        old_copy_options(parser)?
    };
    if binary {
        list.push(CopyOption {
            name: "format".to_owned(),
            argument: Argument::Text("binary".to_owned()),
            location: parser.peek_token().span.start,
        });
    }
    if next_is(parser, 0, "where") {
        return Err(Error::unsupported("COPY FROM … WHERE").into());
    }
    Ok(Command::Copy(Box::new(CopyCommand {
        source,
        from,
        options: list,
    })))
}

/// Parses the options of COPY in the syntax that had no parentheses.
fn old_copy_options(parser: &mut Parser<'_>) -> Parse<Vec<CopyOption>> {
    let mut list = Vec::new();
    loop {
        let location = parser.peek_token().span.start;
        let token = parser.peek_token().token;
        let Some(name) = word(&token).map(str::to_ascii_lowercase) else {
            return Ok(list);
        };
        let (name, argument) = match name.as_str() {
            "binary" | "csv" => {
                parser.next_token();
                ("format".to_owned(), Argument::Text(name))
            }
            "freeze" | "header" => {
                parser.next_token();
                (name, Argument::None)
            }
            "delimiter" | "delimiters" | "null" | "quote" | "escape" | "encoding" => {
                parser.next_token();
                eat(parser, "as");
                let name = if name == "delimiters" {
                    "delimiter".to_owned()
                } else {
                    name
                };
                (name, Argument::Text(value(parser)?))
            }
            "force" => {
                parser.next_token();
                let name = if eat(parser, "quote") {
                    "force_quote"
                } else if eat(parser, "null") {
                    "force_null"
                } else {
                    need(parser, "not")?;
                    need(parser, "null")?;
                    "force_not_null"
                };
                let argument = if parser.consume_token(&Token::Mul) {
                    Argument::Star
                } else {
                    Argument::List(parser.parse_comma_separated(|parser| {
                        parser.parse_identifier().map(|ident| fold(&ident))
                    })?)
                };
                (name.to_owned(), argument)
            }
            _ => return Ok(list),
        };
        list.push(CopyOption {
            name,
            argument,
            location,
        });
    }
}

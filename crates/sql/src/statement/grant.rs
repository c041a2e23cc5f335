//! Parser for GRANT and REVOKE.
//!
//! ```text
//!   GRANT  privileges ON objects TO roles [WITH GRANT OPTION]
//!   GRANT  roles                 TO roles [WITH ADMIN OPTION]
//!   REVOKE [GRANT OPTION FOR] privileges ON objects FROM roles [CASCADE]
//!   REVOKE [ADMIN OPTION FOR] roles                 FROM roles [CASCADE]
//! ```
//!
//! An ON after the first list tells that it contains privileges, not roles.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::command::{Command, GrantCommand, GrantObjects, Granted, RoleName};
use super::role::{role_name, role_names};
use super::text::Text;
use super::words::{Parse, eat, identifier, need, next_is, unexpected, unsupported, word};
use crate::access::Privileges;
use crate::error::{Error, SqlState};

/// Kinds of objects whose privileges PostgreSQL supports and this database does not.
const OTHER_KINDS: [&str; 14] = [
    "sequence",
    "sequences",
    "database",
    "domain",
    "foreign",
    "function",
    "functions",
    "language",
    "large",
    "parameter",
    "procedure",
    "routine",
    "tablespace",
    "type",
];

/// Parses the rest of a GRANT or REVOKE statement.
pub(super) fn grant(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let first = parser.next_token();
    let revoke = super::words::is(&first.token, "revoke");
    let mut option = false;
    if revoke
        && matches!(parser.peek_nth_token(1).token, Token::Word(_))
        && next_is(parser, 1, "option")
    {
        option = eat(parser, "grant") || eat(parser, "admin") || eat(parser, "inherit");
        need(parser, "option")?;
        need(parser, "for")?;
    }
    let granted = if names_privileges(parser) {
        let privileges = privileges(parser, &first, text)?;
        need(parser, "on")?;
        let objects = objects(parser, text)?;
        Granted::Privileges {
            privileges,
            objects,
        }
    } else {
        Granted::Roles(role_names(parser)?)
    };
    need(parser, if revoke { "from" } else { "to" })?;
    let mut roles = Vec::new();
    loop {
        eat(parser, "group");
        roles.push(role_name(parser)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if !revoke && eat(parser, "with") {
        let wanted = match granted {
            Granted::Privileges { .. } => "grant",
            Granted::Roles(_) => "admin",
        };
        need(parser, wanted)?;
        // Later versions of PostgreSQL also accept WITH ADMIN TRUE.
        option = eat(parser, "option") || eat(parser, "true");
        if !option && !eat(parser, "false") {
            return unexpected(parser, "OPTION");
        }
    }
    let by = if eat(parser, "granted") {
        need(parser, "by")?;
        Some(role_name(parser)?)
    } else {
        None
    };
    let cascade = revoke && eat(parser, "cascade");
    if revoke && !cascade {
        eat(parser, "restrict");
    }
    if let Granted::Roles(_) = granted
        && roles.contains(&RoleName::Public)
    {
        let nobody = "membership cannot be granted to PUBLIC";
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, nobody).into());
    }
    Ok(Command::Grant(GrantCommand {
        revoke,
        granted,
        roles,
        option,
        by,
        cascade,
    }))
}

/// Whether ON occurs before TO and FROM.
fn names_privileges(parser: &Parser<'_>) -> bool {
    let mut ahead = 0;
    loop {
        let token = parser.peek_nth_token(ahead).token;
        match word(&token).map(str::to_ascii_lowercase).as_deref() {
            Some("on") => return true,
            Some("to" | "from") => return false,
            _ if token == Token::EOF => return false,
            _ => ahead += 1,
        }
    }
}

/// Parses a list of privileges; returns `None` for ALL.
fn privileges(
    parser: &mut Parser<'_>,
    first: &TokenWithSpan,
    text: &Text,
) -> Parse<Option<Privileges>> {
    let all = eat(parser, "all");
    if all {
        eat(parser, "privileges");
        if parser.peek_token().token == Token::LParen {
            return Err(unsupported("a privilege on columns", first, text));
        }
        return Ok(None);
    }
    let mut all = Privileges::NONE;
    loop {
        let name = identifier(parser)?;
        let privilege = Privileges::named(&name).ok_or_else(|| {
            let message = format!("unrecognized privilege type \"{name}\"");
            match name.as_str() {
                "execute" | "connect" | "temp" | "temporary" | "set" | "maintain" => {
                    Error::unsupported(format!("the privilege {}", name.to_uppercase()))
                }
                _ => Error::syntax(message),
            }
        })?;
        if parser.peek_token().token == Token::LParen {
            return Err(unsupported("a privilege on columns", first, text));
        }
        all = all.with(privilege);
        if !parser.consume_token(&Token::Comma) {
            return Ok(Some(all));
        }
    }
}

fn objects(parser: &mut Parser<'_>, text: &Text) -> Parse<GrantObjects> {
    let token = parser.peek_token();
    if eat(parser, "schema") {
        let mut schemas = vec![identifier(parser)?];
        while parser.consume_token(&Token::Comma) {
            schemas.push(identifier(parser)?);
        }
        return Ok(GrantObjects::Schemas(schemas));
    }
    if next_is(parser, 0, "all") && !matches!(parser.peek_nth_token(1).token, Token::Comma) {
        parser.next_token();
        if !eat(parser, "tables") {
            return Err(unsupported(
                "GRANT ON ALL of a kind but TABLES",
                &token,
                text,
            ));
        }
        need(parser, "in")?;
        need(parser, "schema")?;
        let mut schemas = vec![identifier(parser)?];
        while parser.consume_token(&Token::Comma) {
            schemas.push(identifier(parser)?);
        }
        return Ok(GrantObjects::AllTables(schemas));
    }
    if let Some(kind) = word(&token.token)
        && OTHER_KINDS
            .iter()
            .any(|other| other.eq_ignore_ascii_case(kind))
        && matches!(parser.peek_nth_token(1).token, Token::Word(_))
        && !next_is(parser, 1, "to")
        && !next_is(parser, 1, "from")
    {
        let feature = format!("GRANT ON {}", kind.to_ascii_uppercase());
        return Err(unsupported(&feature, &token, text));
    }
    eat(parser, "table");
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    Ok(GrantObjects::Tables(names))
}

//! Parser for SET, SHOW and RESET.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Command, SetCommand, SettingName};
use super::role::{set_authorization, set_role};
use super::transaction::modes;
use super::words::{Parse, eat, identifier, need, next_is, value};
use crate::error::Error;

/// Parses the rest of a SET statement.
pub(super) fn set(parser: &mut Parser<'_>) -> Parse<Command> {
    if next_is(parser, 0, "session") && next_is(parser, 1, "characteristics") {
        parser.next_token();
        parser.next_token();
        need(parser, "as")?;
        need(parser, "transaction")?;
        return Ok(Command::SetCharacteristics(modes(parser)?));
    }
    let local = eat(parser, "local");
    // SESSION may also begin SESSION AUTHORIZATION.
    if !local && !next_is(parser, 1, "authorization") {
        eat(parser, "session");
    }
    if next_is(parser, 0, "session") && next_is(parser, 1, "authorization") {
        parser.next_token();
        parser.next_token();
        return set_authorization(parser, local);
    }
    if next_is(parser, 0, "role") {
        parser.next_token();
        if !parser.consume_token(&Token::Eq) {
            eat(parser, "to");
        }
        return set_role(parser, local);
    }
    if eat(parser, "transaction") {
        if eat(parser, "snapshot") {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT").into());
        }
        return Ok(Command::SetTransaction(modes(parser)?));
    }
    if next_is(parser, 0, "constraints") {
        return Err(Error::unsupported("SET CONSTRAINTS").into());
    }
    let name = if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        "timezone".to_owned()
    } else if eat(parser, "names") {
        "client_encoding".to_owned()
    } else {
        let name = setting_name(parser)?;
        if name == "session_authorization" {
            if !parser.consume_token(&Token::Eq) {
                need(parser, "to")?;
            }
            return set_authorization(parser, local);
        }
        if !parser.consume_token(&Token::Eq) {
            need(parser, "to")?;
        }
        name
    };
    let values = if eat(parser, "default") || (name == "timezone" && eat(parser, "local")) {
        None
    } else {
        Some(parser.parse_comma_separated(value)?)
    };
    Ok(Command::Set(SetCommand {
        local,
        name,
        values,
    }))
}

pub(super) fn setting_name(parser: &mut Parser<'_>) -> Parse<String> {
    let mut name = identifier(parser)?.to_lowercase();
    while parser.consume_token(&Token::Period) {
        name.push('.');
        name.push_str(&identifier(parser)?.to_lowercase());
    }
    Ok(name)
}

/// Parses the rest of a RESET statement.
pub(super) fn reset(parser: &mut Parser<'_>) -> Parse<Command> {
    let authorization = next_is(parser, 0, "session") && next_is(parser, 1, "authorization");
    if authorization {
        parser.next_token();
    }
    if authorization || next_is(parser, 0, "session_authorization") {
        parser.next_token();
        return Ok(Command::SetAuthorization {
            tag: "RESET",
            local: false,
            name: None,
        });
    }
    if next_is(parser, 0, "role") {
        parser.next_token();
        return Ok(Command::SetRole {
            tag: "RESET",
            local: false,
            name: None,
        });
    }
    Ok(Command::Reset(setting(parser)?))
}

/// Parses the rest of a SHOW statement, or of RESET.
pub(super) fn setting(parser: &mut Parser<'_>) -> Parse<SettingName> {
    if eat(parser, "all") {
        return Ok(SettingName::All);
    }
    if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        return Ok(SettingName::One("timezone".to_owned()));
    }
    if next_is(parser, 0, "session") && next_is(parser, 1, "authorization") {
        parser.next_token();
        parser.next_token();
        return Ok(SettingName::One("session_authorization".to_owned()));
    }
    if next_is(parser, 0, "transaction") && next_is(parser, 1, "isolation") {
        parser.next_token();
        parser.next_token();
        need(parser, "level")?;
        return Ok(SettingName::One("transaction_isolation".to_owned()));
    }
    Ok(SettingName::One(setting_name(parser)?))
}

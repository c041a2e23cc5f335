//! SET, SHOW and RESET.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Command, SetCommand, SettingName};
use super::transaction::modes;
use super::words::{Parse, eat, identifier, need, next_is, value};
use crate::error::Error;

/// What follows SET.
pub(super) fn set(parser: &mut Parser<'_>) -> Parse<Command> {
    if next_is(parser, 0, "session") && next_is(parser, 1, "characteristics") {
        parser.next_token();
        parser.next_token();
        need(parser, "as")?;
        need(parser, "transaction")?;
        return Ok(Command::SetCharacteristics(modes(parser)?));
    }
    let local = eat(parser, "local");
    if !local {
        eat(parser, "session");
    }
    if eat(parser, "transaction") {
        if eat(parser, "snapshot") {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT").into());
        }
        return Ok(Command::SetTransaction(modes(parser)?));
    }
    for word in ["authorization", "role", "constraints"] {
        if next_is(parser, 0, word) {
            let feature = format!("SET {}", word.to_uppercase());
            return Err(Error::unsupported(feature).into());
        }
    }
    let name = if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        "timezone".to_owned()
    } else if eat(parser, "names") {
        "client_encoding".to_owned()
    } else {
        let name = setting_name(parser)?;
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

fn setting_name(parser: &mut Parser<'_>) -> Parse<String> {
    let mut name = identifier(parser)?.to_lowercase();
    while parser.consume_token(&Token::Period) {
        name.push('.');
        name.push_str(&identifier(parser)?.to_lowercase());
    }
    Ok(name)
}

/// What follows SHOW and RESET.
pub(super) fn setting(parser: &mut Parser<'_>) -> Parse<SettingName> {
    if eat(parser, "all") {
        return Ok(SettingName::All);
    }
    if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        return Ok(SettingName::One("timezone".to_owned()));
    }
    if next_is(parser, 0, "transaction") && next_is(parser, 1, "isolation") {
        parser.next_token();
        parser.next_token();
        need(parser, "level")?;
        return Ok(SettingName::One("transaction_isolation".to_owned()));
    }
    Ok(SettingName::One(setting_name(parser)?))
}

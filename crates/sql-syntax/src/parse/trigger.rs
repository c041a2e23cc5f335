//! Triggers, rules and policies.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    AlterPolicy, Attributes, CreatePolicy, CreateRule, CreateTrigger, Expr, Role, RuleEvent,
    StatementKind, Transition, TriggerEvent, TriggerTime,
};

impl Parser<'_> {
    pub(super) fn create_trigger(&mut self, or_replace: bool) -> Parsed<StatementKind> {
        let at = self.pos();
        let constraint = self.eat(K::Constraint);
        self.expect(K::Trigger)?;
        let name = self.column_name()?;
        let time = if self.eat(K::After) {
            TriggerTime::After
        } else if !constraint && self.eat(K::Before) {
            TriggerTime::Before
        } else {
            if !constraint {
                self.expect(K::Instead)?;
            }
            self.expect(K::Of)?;
            TriggerTime::InsteadOf
        };
        let events = self.trigger_events()?;
        self.expect(K::On)?;
        let table = self.qualified_name()?;
        let mut trigger = CreateTrigger {
            or_replace,
            constraint,
            name,
            time,
            events,
            table,
            from: None,
            attributes: Attributes::default(),
            transitions: Vec::new(),
            for_each_row: false,
            when: None,
            function: crate::tree::Path(Vec::new()),
            arguments: Vec::new(),
        };
        if constraint {
            if self.eat(K::From) {
                trigger.from = Some(self.qualified_name()?);
            }
            trigger.attributes = self.attributes()?;
            self.expect_all(&[K::For, K::Each, K::Row])?;
            trigger.for_each_row = true;
        } else {
            if self.eat(K::Referencing) {
                trigger.transitions = self.transitions()?;
            }
            if self.eat(K::For) {
                self.eat(K::Each);
                trigger.for_each_row = self.eat(K::Row);
                if !trigger.for_each_row {
                    self.expect(K::Statement)?;
                }
            }
        }
        if self.eat(K::When) {
            trigger.when = Some(self.in_brackets(Self::expr)?);
        }
        self.expect(K::Execute)?;
        if !self.eat(K::Function) {
            self.expect(K::Procedure)?;
        }
        trigger.function = self.function_name()?;
        trigger.arguments = self.trigger_arguments()?;
        if constraint && or_replace {
            let message = "CREATE OR REPLACE CONSTRAINT TRIGGER is not supported";
            return Err(SyntaxError::new(Fault::NotSupported, message, at));
        }
        if trigger.attributes.not_valid || trigger.attributes.no_inherit {
            let what = if trigger.attributes.not_valid {
                "NOT VALID"
            } else {
                "NO INHERIT"
            };
            let message = format!("TRIGGER constraints cannot be marked {what}");
            return Err(SyntaxError::new(Fault::NotSupported, message, at));
        }
        Ok(StatementKind::CreateTrigger(Box::new(trigger)))
    }

    fn trigger_events(&mut self) -> Parsed<Vec<TriggerEvent>> {
        let mut events = Vec::new();
        loop {
            let event = match self.keyword() {
                K::Insert => TriggerEvent::Insert,
                K::Delete => TriggerEvent::Delete,
                K::Truncate => TriggerEvent::Truncate,
                K::Update => {
                    self.bump();
                    let columns = if self.eat(K::Of) {
                        self.list(Self::column_name)?
                    } else {
                        Vec::new()
                    };
                    self.add_event(&mut events, TriggerEvent::Update(columns))?;
                    if self.eat(K::Or) {
                        continue;
                    }
                    return Ok(events);
                }
                _ => return Err(self.error()),
            };
            self.bump();
            self.add_event(&mut events, event)?;
            if !self.eat(K::Or) {
                return Ok(events);
            }
        }
    }

    fn add_event(&self, events: &mut Vec<TriggerEvent>, event: TriggerEvent) -> Parsed<()> {
        let same =
            |other: &TriggerEvent| std::mem::discriminant(other) == std::mem::discriminant(&event);
        if events.iter().any(same) {
            return Err(self.error_at(self.token(), "duplicate trigger events specified"));
        }
        events.push(event);
        Ok(())
    }

    fn transitions(&mut self) -> Parsed<Vec<Transition>> {
        let mut transitions = Vec::new();
        while self.any(&[K::New, K::Old]) {
            let new = self.is(K::New);
            self.bump();
            let table = self.eat(K::Table);
            if !table {
                self.expect(K::Row)?;
            }
            self.eat(K::As);
            transitions.push(Transition {
                new,
                table,
                name: self.column_name()?,
            });
        }
        if transitions.is_empty() {
            Err(self.error())
        } else {
            Ok(transitions)
        }
    }

    fn trigger_arguments(&mut self) -> Parsed<Vec<String>> {
        self.in_brackets(|parser| {
            if parser.kind() == TokenKind::Close {
                return Ok(Vec::new());
            }
            parser.list(|parser| match parser.kind() {
                TokenKind::String => parser.string(),
                TokenKind::Integer => Ok(parser.integer()?.to_string()),
                TokenKind::Number => {
                    let text = parser.token_text().to_owned();
                    parser.bump();
                    Ok(text)
                }
                _ => Ok(parser.label()?.text.into()),
            })
        })
    }

    pub(super) fn create_rule(&mut self, or_replace: bool) -> Parsed<StatementKind> {
        self.bump();
        let name = self.column_name()?;
        self.expect_all(&[K::As, K::On])?;
        let event = self.rule_event()?;
        self.expect(K::To)?;
        let table = self.qualified_name()?;
        let filter = self.optional_where()?;
        self.expect(K::Do)?;
        let instead = self.eat(K::Instead);
        if !instead {
            self.eat(K::Also);
        }
        Ok(StatementKind::CreateRule(Box::new(CreateRule {
            or_replace,
            name,
            event,
            table,
            filter,
            instead,
            actions: self.rule_actions()?,
        })))
    }

    fn rule_event(&mut self) -> Parsed<RuleEvent> {
        let event = match self.keyword() {
            K::Select => RuleEvent::Select,
            K::Insert => RuleEvent::Insert,
            K::Update => RuleEvent::Update,
            K::Delete => RuleEvent::Delete,
            _ => return Err(self.error()),
        };
        self.bump();
        Ok(event)
    }

    fn rule_actions(&mut self) -> Parsed<Vec<StatementKind>> {
        if self.eat(K::Nothing) {
            return Ok(Vec::new());
        }
        if self.kind() != TokenKind::Open
            || self.is_query_behind_brackets() && !self.is_several_actions()
        {
            return Ok(vec![self.rule_action()?]);
        }
        self.in_brackets(|parser| {
            let mut actions = Vec::new();
            loop {
                while parser.eat_kind(TokenKind::Semicolon) {}
                if parser.kind() == TokenKind::Close {
                    return Ok(actions);
                }
                actions.push(parser.rule_action()?);
                if parser.kind() != TokenKind::Close && parser.kind() != TokenKind::Semicolon {
                    return Err(parser.error());
                }
            }
        })
    }

    /// Whether brackets hold several actions, or one with WITH, rather than being a query's.
    fn is_several_actions(&self) -> bool {
        let mut depth = 0_usize;
        for (ahead, token) in self.tokens[self.at..].iter().enumerate() {
            match token.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close if depth <= 1 => {
                    let next = self.peek(ahead + 1);
                    return matches!(
                        next.kind,
                        TokenKind::End | TokenKind::Semicolon | TokenKind::Close
                    );
                }
                TokenKind::Close => depth -= 1,
                TokenKind::Semicolon if depth == 1 => return true,
                TokenKind::End => return false,
                _ => {}
            }
        }
        false
    }

    fn rule_action(&mut self) -> Parsed<StatementKind> {
        if self.is(K::Notify) {
            return self.notification();
        }
        self.preparable()
    }

    pub(super) fn create_policy(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.column_name()?;
        self.expect(K::On)?;
        let table = self.qualified_name()?;
        let restrictive = if self.eat(K::As) {
            self.restrictive()?
        } else {
            false
        };
        let command = if self.eat(K::For) && !self.eat(K::All) {
            Some(self.rule_event()?)
        } else {
            None
        };
        let (roles, using, check) = self.policy_rest()?;
        Ok(StatementKind::CreatePolicy(Box::new(CreatePolicy {
            name,
            table,
            restrictive,
            command,
            roles,
            using,
            check,
        })))
    }

    fn restrictive(&mut self) -> Parsed<bool> {
        let at = self.pos();
        if self.kind() != TokenKind::Name {
            return Err(self.error());
        }
        let word = self.label()?;
        match word.text.as_str() {
            "permissive" => Ok(false),
            "restrictive" => Ok(true),
            other => {
                let message = format!("unrecognized row security option \"{other}\"");
                let mut error = SyntaxError::new(Fault::Syntax, message, at);
                error.hint =
                    Some("Only PERMISSIVE or RESTRICTIVE policies are supported currently.");
                Err(error)
            }
        }
    }

    fn policy_rest(&mut self) -> Parsed<(Vec<Role>, Option<Expr>, Option<Expr>)> {
        let roles = if self.eat(K::To) {
            self.roles()?
        } else {
            Vec::new()
        };
        let using = if self.eat(K::Using) {
            Some(self.in_brackets(Self::expr)?)
        } else {
            None
        };
        let check = if self.eat(K::With) {
            self.expect(K::Check)?;
            Some(self.in_brackets(Self::expr)?)
        } else {
            None
        };
        Ok((roles, using, check))
    }

    /// Behind the table of ALTER POLICY.
    pub(super) fn alter_policy(
        &mut self,
        name: crate::tree::Name,
        table: crate::tree::Path,
    ) -> Parsed<StatementKind> {
        let (roles, using, check) = self.policy_rest()?;
        Ok(StatementKind::AlterPolicy(Box::new(AlterPolicy {
            name,
            table,
            roles,
            using,
            check,
        })))
    }
}

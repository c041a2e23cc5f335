//! The bound on the character classes of a pattern, on its syntax tree.
//!
//! A Unicode class is a table of hundreds of ranges that two bytes of a pattern call for,
//! and a class that ignores case is folded one character at a time: `~* '[\W]'` visits a
//! million. Both happen before there is a program whose size could be bounded, so the
//! classes are counted before:
//!
//! ```text
//!   \w, \W, \p{L}                 one table
//!   [\W], [\D], [\S], [^\P{L}]    ignoring case: characters to fold as well
//!   [a-z], [[:alpha:]], .         nothing
//! ```

use std::convert::Infallible;

use regex_syntax::ast::{Ast, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, Visitor, visit};

/// Maximum number of tables of a pattern. A program within its bound has fewer.
const TABLES: usize = 128;

/// Maximum number of characters that the classes of a pattern fold; a million takes ten
/// milliseconds.
const FOLDED: usize = 8 << 20;

/// Number of characters of Unicode's code space.
const ALL: usize = 0x11_0000;

/// Number of characters in the classes of words, digits and space, rounded up.
const SOME: usize = 150_000;

/// What the classes of a pattern ask for.
#[derive(Debug, Default)]
pub(super) struct Classes {
    tables: usize,
    /// Characters in classes between brackets.
    characters: usize,
    ignores_case: bool,
}

impl Classes {
    /// Counts the classes of a pattern. A pattern that the parser refuses has none.
    pub(super) fn of(pattern: &str, ignore_case: bool, nesting: u32) -> Self {
        let mut parser = regex_syntax::ast::parse::ParserBuilder::new()
            .nest_limit(nesting)
            .build();
        let counted = Self {
            ignores_case: ignore_case,
            ..Self::default()
        };
        match parser.parse(pattern) {
            Ok(tree) => visit(&tree, counted).unwrap_or_default(),
            Err(_) => counted,
        }
    }

    fn folded(&self) -> usize {
        if self.ignores_case {
            self.characters
        } else {
            0
        }
    }

    /// Whether a compiled pattern may have so many.
    pub(super) fn are_few(&self) -> bool {
        self.tables <= TABLES && self.folded() <= FOLDED
    }

    /// Whether they take about a millisecond or more.
    pub(super) fn take_long(&self) -> bool {
        self.tables > 8 || self.folded() > 1 << 16
    }

    fn flags(&mut self, flags: &Flags) {
        let ignores = |item: &regex_syntax::ast::FlagsItem| {
            item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive)
        };
        self.ignores_case |= flags.items.iter().any(ignores);
    }
}

impl Visitor for Classes {
    type Output = Self;
    type Err = Infallible;

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Infallible> {
        match tree {
            Ast::ClassPerl(_) | Ast::ClassUnicode(_) => self.tables += 1,
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        match item {
            ClassSetItem::Perl(class) => {
                self.tables += 1;
                self.characters += if class.negated { ALL } else { SOME };
            }
            ClassSetItem::Unicode(_) => {
                self.tables += 1;
                self.characters += ALL;
            }
            ClassSetItem::Range(range) => {
                let (start, end) = (u32::from(range.start.c), u32::from(range.end.c));
                self.characters += end.saturating_sub(start) as usize;
            }
            _ => {}
        }
        Ok(())
    }
}

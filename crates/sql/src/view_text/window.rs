//! Printing of windows: what stands behind OVER and in the WINDOW clause.

use coeval_sql_syntax::tree::{Exclude, Frame, FrameBound, FrameUnit, Window};

use super::constant::{Constant, constant};
use super::expr::Around;
use super::{Level, Printer};
use crate::Result;
use crate::expression::fold_name;
use crate::value::DataType;

impl Printer<'_, '_> {
    pub(super) fn window(&mut self, window: &Window, level: &Level<'_>) -> Result<()> {
        self.put("(");
        let mut separator = "";
        if let Some(base) = &window.base {
            self.identifier(&fold_name(base));
            separator = " ";
        }
        for (at, expr) in window.partition.iter().enumerate() {
            self.put(if at > 0 { ", " } else { separator });
            self.put(if at > 0 { "" } else { "PARTITION BY " });
            self.sort_key(expr, None, level)?;
            separator = " ";
        }
        for (at, item) in window.order.iter().enumerate() {
            self.put(if at > 0 { ", " } else { separator });
            self.put(if at > 0 { "" } else { "ORDER BY " });
            self.sort_key(&item.expr, None, level)?;
            self.direction(item)?;
            separator = " ";
        }
        if let Some(frame) = &window.frame {
            self.put(separator);
            let offset = self.offset_type(frame, window, level);
            self.frame(frame, offset, level)?;
        }
        self.put(")");
        Ok(())
    }

    /// The type that a literal has as an offset of a frame.
    fn offset_type(
        &mut self,
        frame: &Frame,
        window: &Window,
        level: &Level<'_>,
    ) -> Option<DataType> {
        if frame.unit != FrameUnit::Range {
            return Some(DataType::Int8);
        }
        let key = self.operand_type(&window.order.first()?.expr, level)?;
        match key {
            DataType::Date
            | DataType::Timestamp
            | DataType::TimestampTz
            | DataType::Time
            | DataType::TimeTz => Some(DataType::Interval),
            key => Some(key),
        }
    }

    fn frame(&mut self, frame: &Frame, offset: Option<DataType>, level: &Level<'_>) -> Result<()> {
        self.put(match frame.unit {
            FrameUnit::Range => "RANGE ",
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Groups => "GROUPS ",
        });
        self.put(if frame.end.is_some() { "BETWEEN " } else { "" });
        self.frame_bound(&frame.start, offset, level)?;
        if let Some(end) = &frame.end {
            self.put(" AND ");
            self.frame_bound(end, offset, level)?;
        }
        self.put(match frame.exclude {
            Exclude::Nothing => "",
            Exclude::CurrentRow => " EXCLUDE CURRENT ROW",
            Exclude::Group => " EXCLUDE GROUP",
            Exclude::Ties => " EXCLUDE TIES",
        });
        Ok(())
    }

    fn frame_bound(
        &mut self,
        bound: &FrameBound,
        offset: Option<DataType>,
        level: &Level<'_>,
    ) -> Result<()> {
        let (distance, word) = match bound {
            FrameBound::UnboundedPreceding => {
                self.put("UNBOUNDED PRECEDING");
                return Ok(());
            }
            FrameBound::UnboundedFollowing => {
                self.put("UNBOUNDED FOLLOWING");
                return Ok(());
            }
            FrameBound::CurrentRow => {
                self.put("CURRENT ROW");
                return Ok(());
            }
            FrameBound::Preceding(distance) => (distance, " PRECEDING"),
            FrameBound::Following(distance) => (distance, " FOLLOWING"),
        };
        // An implied cast is shown of a literal only, which has the type from the beginning.
        match constant(distance) {
            Some(Constant::Text(_)) => self.as_type(distance, level, offset, Around::Top)?,
            _ => self.expr(distance, level, Around::Top)?,
        }
        self.put(word);
        Ok(())
    }
}

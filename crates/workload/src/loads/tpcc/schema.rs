//! Schema of TPC-C: the nine tables (clause 1.3), with the positions of their columns.
//!
//! The columns of a key come first, beginning with the warehouse, so that the rows of a
//! district are neighbours.

use crate::store::{ColumnKind, Table};

pub(super) const WAREHOUSE: usize = 0;
pub(super) const DISTRICT: usize = 1;
pub(super) const CUSTOMER: usize = 2;
pub(super) const HISTORY: usize = 3;
pub(super) const NEW_ORDER: usize = 4;
pub(super) const ORDER: usize = 5;
pub(super) const ORDER_LINE: usize = 6;
pub(super) const ITEM: usize = 7;
pub(super) const STOCK: usize = 8;

/// Columns of WAREHOUSE.
pub(super) mod w {
    pub(in super::super) const NAME: usize = 1;
    pub(in super::super) const TAX: usize = 7;
    pub(in super::super) const YTD: usize = 8;
}

/// Columns of DISTRICT.
pub(super) mod d {
    pub(in super::super) const ID: usize = 1;
    pub(in super::super) const NAME: usize = 2;
    pub(in super::super) const TAX: usize = 8;
    pub(in super::super) const YTD: usize = 9;
    pub(in super::super) const NEXT_O_ID: usize = 10;
}

/// Columns of CUSTOMER.
pub(super) mod c {
    pub(in super::super) const D_ID: usize = 1;
    pub(in super::super) const ID: usize = 2;
    pub(in super::super) const CREDIT: usize = 13;
    pub(in super::super) const DISCOUNT: usize = 15;
    pub(in super::super) const BALANCE: usize = 16;
    pub(in super::super) const YTD_PAYMENT: usize = 17;
    pub(in super::super) const PAYMENT_CNT: usize = 18;
    pub(in super::super) const DELIVERY_CNT: usize = 19;
    pub(in super::super) const DATA: usize = 20;
}

/// Columns of HISTORY.
pub(super) mod h {
    pub(in super::super) const C_ID: usize = 0;
    pub(in super::super) const C_D_ID: usize = 1;
    pub(in super::super) const C_W_ID: usize = 2;
    pub(in super::super) const D_ID: usize = 3;
    pub(in super::super) const W_ID: usize = 4;
    pub(in super::super) const AMOUNT: usize = 6;
}

/// Columns of NEW-ORDER, ORDER and ORDER-LINE that have the same position in all three.
pub(super) mod o {
    pub(in super::super) const D_ID: usize = 1;
    pub(in super::super) const ID: usize = 2;
    pub(in super::super) const C_ID: usize = 3;
    pub(in super::super) const CARRIER_ID: usize = 5;
    pub(in super::super) const OL_CNT: usize = 6;
}

/// Columns of ORDER-LINE.
pub(super) mod ol {
    pub(in super::super) const I_ID: usize = 4;
    pub(in super::super) const DELIVERY_D: usize = 6;
    pub(in super::super) const QUANTITY: usize = 7;
    pub(in super::super) const AMOUNT: usize = 8;
}

/// Columns of ITEM.
pub(super) mod i {
    pub(in super::super) const PRICE: usize = 3;
}

/// Columns of STOCK.
pub(super) mod s {
    pub(in super::super) const QUANTITY: usize = 2;
    /// The column of the first district; those of the others follow.
    pub(in super::super) const DIST: usize = 3;
    pub(in super::super) const YTD: usize = 13;
    pub(in super::super) const ORDER_CNT: usize = 14;
    pub(in super::super) const REMOTE_CNT: usize = 15;
}

/// The index of CUSTOMER by last and first name.
pub(super) const BY_NAME: usize = 0;
/// The index of ORDER by customer.
pub(super) const BY_CUSTOMER: usize = 0;

/// All tables, at their positions.
pub(super) fn tables() -> Vec<Table> {
    use ColumnKind::{Bigint, Int, Text};
    vec![
        Table::new(
            "tpcc_warehouse",
            1,
            &[
                ("w_id", Int),
                ("w_name", Text),
                ("w_street_1", Text),
                ("w_street_2", Text),
                ("w_city", Text),
                ("w_state", Text),
                ("w_zip", Text),
                ("w_tax", Int),
                ("w_ytd", Bigint),
            ],
        ),
        Table::new(
            "tpcc_district",
            2,
            &[
                ("d_w_id", Int),
                ("d_id", Int),
                ("d_name", Text),
                ("d_street_1", Text),
                ("d_street_2", Text),
                ("d_city", Text),
                ("d_state", Text),
                ("d_zip", Text),
                ("d_tax", Int),
                ("d_ytd", Bigint),
                ("d_next_o_id", Int),
            ],
        ),
        Table::new(
            "tpcc_customer",
            3,
            &[
                ("c_w_id", Int),
                ("c_d_id", Int),
                ("c_id", Int),
                ("c_first", Text),
                ("c_middle", Text),
                ("c_last", Text),
                ("c_street_1", Text),
                ("c_street_2", Text),
                ("c_city", Text),
                ("c_state", Text),
                ("c_zip", Text),
                ("c_phone", Text),
                ("c_since", Bigint),
                ("c_credit", Text),
                ("c_credit_lim", Bigint),
                ("c_discount", Int),
                ("c_balance", Bigint),
                ("c_ytd_payment", Bigint),
                ("c_payment_cnt", Int),
                ("c_delivery_cnt", Int),
                ("c_data", Text),
            ],
        )
        .with_index("tpcc_customer_by_name", &[0, 1, 5, 3]),
        Table::new(
            "tpcc_history",
            0,
            &[
                ("h_c_id", Int),
                ("h_c_d_id", Int),
                ("h_c_w_id", Int),
                ("h_d_id", Int),
                ("h_w_id", Int),
                ("h_date", Bigint),
                ("h_amount", Bigint),
                ("h_data", Text),
            ],
        ),
        Table::new(
            "tpcc_new_order",
            3,
            &[("no_w_id", Int), ("no_d_id", Int), ("no_o_id", Int)],
        ),
        Table::new(
            "tpcc_order",
            3,
            &[
                ("o_w_id", Int),
                ("o_d_id", Int),
                ("o_id", Int),
                ("o_c_id", Int),
                ("o_entry_d", Bigint),
                ("o_carrier_id", Int),
                ("o_ol_cnt", Int),
                ("o_all_local", Int),
            ],
        )
        .with_index("tpcc_order_by_customer", &[0, 1, 3, 2]),
        Table::new(
            "tpcc_order_line",
            4,
            &[
                ("ol_w_id", Int),
                ("ol_d_id", Int),
                ("ol_o_id", Int),
                ("ol_number", Int),
                ("ol_i_id", Int),
                ("ol_supply_w_id", Int),
                ("ol_delivery_d", Bigint),
                ("ol_quantity", Int),
                ("ol_amount", Bigint),
                ("ol_dist_info", Text),
            ],
        ),
        Table::new(
            "tpcc_item",
            1,
            &[
                ("i_id", Int),
                ("i_im_id", Int),
                ("i_name", Text),
                ("i_price", Bigint),
                ("i_data", Text),
            ],
        ),
        stock(),
    ]
}

fn stock() -> Table {
    use ColumnKind::{Bigint, Int, Text};
    let districts: Vec<String> = (1..=10)
        .map(|number| format!("s_dist_{number:02}"))
        .collect();
    let mut columns = vec![("s_w_id", Int), ("s_i_id", Int), ("s_quantity", Int)];
    columns.extend(districts.iter().map(|name| (name.as_str(), Text)));
    columns.extend([
        ("s_ytd", Bigint),
        ("s_order_cnt", Int),
        ("s_remote_cnt", Int),
        ("s_data", Text),
    ]);
    Table::new("tpcc_stock", 2, &columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_where_they_are_said_to_be() {
        let tables = tables();
        for (table, column, name) in [
            (WAREHOUSE, w::NAME, "w_name"),
            (WAREHOUSE, w::TAX, "w_tax"),
            (WAREHOUSE, w::YTD, "w_ytd"),
            (DISTRICT, d::ID, "d_id"),
            (DISTRICT, d::NAME, "d_name"),
            (DISTRICT, d::TAX, "d_tax"),
            (DISTRICT, d::YTD, "d_ytd"),
            (DISTRICT, d::NEXT_O_ID, "d_next_o_id"),
            (CUSTOMER, c::D_ID, "c_d_id"),
            (CUSTOMER, c::ID, "c_id"),
            (CUSTOMER, c::CREDIT, "c_credit"),
            (CUSTOMER, c::DISCOUNT, "c_discount"),
            (CUSTOMER, c::BALANCE, "c_balance"),
            (CUSTOMER, c::YTD_PAYMENT, "c_ytd_payment"),
            (CUSTOMER, c::PAYMENT_CNT, "c_payment_cnt"),
            (CUSTOMER, c::DELIVERY_CNT, "c_delivery_cnt"),
            (CUSTOMER, c::DATA, "c_data"),
            (HISTORY, h::C_ID, "h_c_id"),
            (HISTORY, h::C_D_ID, "h_c_d_id"),
            (HISTORY, h::C_W_ID, "h_c_w_id"),
            (HISTORY, h::D_ID, "h_d_id"),
            (HISTORY, h::W_ID, "h_w_id"),
            (HISTORY, h::AMOUNT, "h_amount"),
            (NEW_ORDER, o::D_ID, "no_d_id"),
            (NEW_ORDER, o::ID, "no_o_id"),
            (ORDER, o::D_ID, "o_d_id"),
            (ORDER, o::ID, "o_id"),
            (ORDER, o::C_ID, "o_c_id"),
            (ORDER, o::CARRIER_ID, "o_carrier_id"),
            (ORDER, o::OL_CNT, "o_ol_cnt"),
            (ORDER_LINE, o::D_ID, "ol_d_id"),
            (ORDER_LINE, o::ID, "ol_o_id"),
            (ORDER_LINE, ol::I_ID, "ol_i_id"),
            (ORDER_LINE, ol::DELIVERY_D, "ol_delivery_d"),
            (ORDER_LINE, ol::AMOUNT, "ol_amount"),
            (ITEM, i::PRICE, "i_price"),
            (STOCK, s::QUANTITY, "s_quantity"),
            (STOCK, s::DIST, "s_dist_01"),
            (STOCK, s::DIST + 9, "s_dist_10"),
            (STOCK, s::YTD, "s_ytd"),
            (STOCK, s::ORDER_CNT, "s_order_cnt"),
            (STOCK, s::REMOTE_CNT, "s_remote_cnt"),
        ] {
            assert_eq!(tables[table].columns[column].name, name);
        }
    }
}

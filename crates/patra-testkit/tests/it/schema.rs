//! The catalogue of tables that both databases are checked against.

#[test]
fn every_listed_table_is_in_one_part() {
    patra_testkit::schema::check_lists();
}

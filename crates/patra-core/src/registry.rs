//! The registry's form: one row per table and endpoint, each with one section of settings.

macro_rules! tables {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// The tables that hold settings (ING-3.2). Each has the same shape: whom it is about, and a JSON object.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Table { $($(#[$doc])* $variant),* }

        impl Table {
            pub const ALL: &[Table] = &[$(Table::$variant),*];

            /// The name of the SQL table.
            pub fn name(self) -> &'static str {
                match self { $(Table::$variant => $name),* }
            }
        }
    };
}

tables! {
    Provenance = "reg_provenance",
    EndpointDef = "reg_prov_endpoint_def",
    HttpCfg = "reg_prov_http_cfg",
    PaginationCfg = "reg_prov_pagination_cfg",
    WindowOffsetCfg = "reg_prov_window_offset_cfg",
    RetryCfg = "reg_prov_retry_cfg",
    RateLimitCfg = "reg_prov_rate_limit_cfg",
    BatchingCfg = "reg_prov_batching_cfg",
    ApiParamMap = "reg_prov_api_param_map",
    ExprCapability = "reg_prov_expr_capability",
    ExprRenderRule = "reg_prov_expr_render_rule",
    ExprFieldDict = "reg_expr_field_dict",
}

/// The endpoint name of a row that is about the provenance as a whole.
pub const WHOLE: &str = "*";

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    pub table: Table,
    /// An endpoint, or [`WHOLE`].
    pub endpoint_name: String,
    /// A JSON object, canonical.
    pub config: String,
}

impl Table {
    /// The table of that name.
    pub fn named(name: &str) -> Option<Table> {
        Table::ALL.iter().copied().find(|table| table.name() == name)
    }
}

/// One code space of the dictionary (`sys_dict_type`), with its words in their order.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct DictType {
    pub code: String,
    pub name: String,
    pub items: Vec<DictItem>,
}

/// A word (`sys_dict_item`) and the other spellings that are read as it (`sys_dict_item_alias`).
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct DictItem {
    pub code: String,
    pub name: String,
    pub aliases: Vec<String>,
}

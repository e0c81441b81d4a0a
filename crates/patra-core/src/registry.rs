//! Rows of the registry: one per table and endpoint, each with one section of settings.

macro_rules! tables {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// The tables that hold settings (ING-3.2). Each row has an endpoint and a JSON object.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum RegistryTable { $($(#[$doc])* $variant),* }

        impl RegistryTable {
            pub const ALL: &[RegistryTable] = &[$(RegistryTable::$variant),*];

            /// The name of the SQL table.
            pub fn name(self) -> &'static str {
                match self { $(RegistryTable::$variant => $name),* }
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

/// The endpoint name of a row that applies to the whole provenance.
pub const WHOLE: &str = "*";

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RegistryRow {
    pub table: RegistryTable,
    /// An endpoint, or [`WHOLE`].
    pub endpoint_name: String,
    /// A JSON object, canonical.
    pub config: String,
}

impl RegistryTable {
    /// The table of that name.
    pub fn named(name: &str) -> Option<RegistryTable> {
        RegistryTable::ALL.iter().copied().find(|table| table.name() == name)
    }
}

/// One code space of the dictionary (`sys_dict_type`), with its items in order.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct DictType {
    pub code: String,
    pub name: String,
    pub items: Vec<DictItem>,
}

/// A dictionary item (`sys_dict_item`) and its aliases (`sys_dict_item_alias`).
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct DictItem {
    pub code: String,
    pub name: String,
    pub aliases: Vec<String>,
}

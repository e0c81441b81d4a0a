use super::*;

mod memory;
mod requests;

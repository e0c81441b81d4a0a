use super::*;

mod asking;
mod memory;

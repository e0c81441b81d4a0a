//! The program as its users meet it, in one test binary so that linking stays quick.

mod cli;
mod house;
mod kill;
mod support;

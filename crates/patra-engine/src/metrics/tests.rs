//! What is counted, and under which names.

mod counted;

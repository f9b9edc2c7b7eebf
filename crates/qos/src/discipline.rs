//! Scheduling disciplines.

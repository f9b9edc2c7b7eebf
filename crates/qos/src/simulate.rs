//! A graph in simulated time.

//! What packets cost: learned from what units take.

//! The dispatcher: it assigns packets to units that ask for work.

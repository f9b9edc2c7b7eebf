//! The worst delay of each class, before a packet is sent.

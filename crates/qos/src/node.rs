//! A node: a queue of three parts, or a discipline over nodes.

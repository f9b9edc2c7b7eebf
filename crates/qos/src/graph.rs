//! A graph of classes, hooks and components: described, checked, compiled, exchanged.

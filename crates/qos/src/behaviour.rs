//! Behaviours: classifiers, meters, markers, policers, shapers.

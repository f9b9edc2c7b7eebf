//! The tests of `conform`, one program: each module is a topic.

mod copies;

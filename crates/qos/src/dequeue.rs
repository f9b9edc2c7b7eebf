//! Dequeueing parts of queues: active queue management that drops or marks what leaves.

//! Enqueueing parts of queues: limits and active queue management that drops or marks what comes.

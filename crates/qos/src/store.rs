//! Queues themselves: FIFO, by flow, by rank.

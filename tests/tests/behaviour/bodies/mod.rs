//! What happens to the body of a locked call: it is alone, and each way out of it frees the lock.

mod at_least;
mod concurrency;
mod detached;
mod exits;
mod kept_locks;
mod nested_calls;
mod replay;

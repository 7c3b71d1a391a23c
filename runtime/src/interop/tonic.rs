//! [`LockError`] as a gRPC status, for tonic.

use std::sync::Arc;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::error::LockError;

/// The status for each error:
///
/// - `ABORTED` for contention, which clients may retry. The details have a `google.rpc.RetryInfo`
///   with [`retry_after`](LockError::retry_after), or with 1 s if that time is not known.
/// - `UNAVAILABLE` if the lock store is unavailable or the pool is shutting down, with a
///   `RetryInfo` of 1 s.
/// - `INVALID_ARGUMENT` for a value from which no valid key can be built. Also for a `replay` call
///   whose key has the kept result of another request.
/// - `UNKNOWN` for a lost lease. The work may have been done in part, and after `UNAVAILABLE`,
///   clients may automatically repeat it.
/// - `INTERNAL` for a misconfigured program.
///
/// The message does not contain the key, because a key can contain data that only one user may see.
/// The `source()` of the status is the `LockError`.
///
/// ```
/// use leasehold::LockError;
///
/// let error = LockError::contended("order:42", None);
/// let status = tonic::Status::from(error);
/// assert_eq!(status.code(), tonic::Code::Aborted);
/// ```
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        error.log_a_mistake();
        let (code, message) = (Code::from_i32(error.grpc_code()), error.public_message());
        let mut status = match error.client_delay() {
            Some(delay) => {
                let details = ErrorDetails::with_retry_info(Some(delay));
                Self::with_error_details(code, message, details)
            }
            None => Self::new(code, message),
        };
        status.set_source(Arc::new(error));
        status
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_class_has_its_code_and_keeps_its_source() {
        let short = Duration::from_millis(120);
        let usual = Duration::from_secs(1);
        for (error, code, delay) in [
            (
                LockError::contended("order:1", short),
                Code::Aborted,
                Some(short),
            ),
            (
                LockError::timed_out("order:1", short, None),
                Code::Aborted,
                Some(usual),
            ),
            (LockError::lost("order:1", None), Code::Unknown, None),
            (LockError::ShuttingDown, Code::Unavailable, Some(usual)),
            (LockError::NotInstalled, Code::Internal, None),
        ] {
            let status = Status::from(error.clone());
            assert_eq!(status.code(), code);
            assert!(!status.message().contains("order:1"));
            let reported = status.get_details_retry_info();
            assert_eq!(reported.and_then(|info| info.retry_delay), delay);
            assert_eq!(status.source().unwrap().to_string(), error.to_string());
        }
    }
}

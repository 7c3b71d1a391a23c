//! [`LockError`] as a gRPC status, for tonic.

use tonic::{Code, Status};

use crate::error::LockError;

/// The status for each error:
///
/// - `ABORTED` for contention, which clients may retry.
/// - `UNAVAILABLE` if the lock service cannot serve.
/// - `INVALID_ARGUMENT` for a value that makes no key.
/// - `UNKNOWN` for a lease that was lost, because the work may have been done in part.
/// - `INTERNAL` for a program that is set up wrongly.
///
/// The message names no key: keys can contain what only one user should see. The error is the
/// status's `source()`.
///
/// ```
/// use leasehold::LockError;
///
/// let error = LockError::Contended { key: "order:42".to_owned(), retry_after: None };
/// let status = tonic::Status::from(error);
/// assert_eq!(status.code(), tonic::Code::Aborted);
/// ```
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        let mut status = Self::new(Code::from_i32(error.grpc_code()), error.public_message());
        status.set_source(std::sync::Arc::new(error));
        status
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn each_class_has_its_code_and_keeps_its_source() {
        let contended = LockError::Contended {
            key: "order:1".to_owned(),
            retry_after: None,
        };
        let lost = LockError::Lost {
            key: "order:1".to_owned(),
            fence: None,
        };
        for (error, code) in [
            (contended, Code::Aborted),
            (lost, Code::Unknown),
            (LockError::ShuttingDown, Code::Unavailable),
            (LockError::NotInstalled, Code::Internal),
        ] {
            let status = Status::from(error.clone());
            assert_eq!(status.code(), code);
            assert!(!status.message().contains("order:1"));
            assert_eq!(status.source().unwrap().to_string(), error.to_string());
        }
    }
}

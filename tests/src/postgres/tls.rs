//! A PostgreSQL server with TLS.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use super::{Postgres, given_away, other_user};
use crate::certificates::{Authority, Identity};

impl Postgres {
    /// Starts a server with a certificate of `authority` for the host name `name`. If `asks` is
    /// true, every client with TLS must present a certificate of the same authority.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn with_tls(authority: &Authority, name: &str, asks: bool) -> Self {
        let folder = given_away();
        let Identity { certificate, key } = authority.issue(name);
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).expect("a file can be written");
            // The server refuses a key file that other users can read.
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(&path, private).expect("a mode can be set");
            if let Some((user, group)) = other_user() {
                chown(&path, Some(user), Some(group)).expect("a file can be given away");
            }
            path.display().to_string()
        };
        let files = [
            format!("ssl_cert_file={}", write("cert", &certificate)),
            format!("ssl_key_file={}", write("key", &key)),
            format!("ssl_ca_file={}", write("ca", authority.pem())),
        ];
        let [certificate, key, ca] = &files;
        let mut settings = vec!["fsync=off", "ssl=on", certificate, key];
        if asks {
            settings.push(ca);
        }
        let mut server = Self::start_with(&settings);
        let proof = if asks { " clientcert=verify-ca" } else { "" };
        let hosts = format!(
            "hostssl all all 127.0.0.1/32 trust{proof}\nhostnossl all all 127.0.0.1/32 reject\nlocal all all trust\n"
        );
        let file = server.path.join("data/pg_hba.conf");
        fs::write(file, hosts).expect("a file can be written");
        server.restart();
        server.folders.push(folder);
        server
    }
}

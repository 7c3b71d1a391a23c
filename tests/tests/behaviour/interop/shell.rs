//! The lock of a shell script, as another client: `redis-cli SET key value NX PX ttl`, and
//! compare-and-delete with `EVAL`.

use std::process::Command;
use std::time::Duration;

use leasehold_tests::wait;

use super::{PATIENCE, Peer, TTL};

const DELETE_IF: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

struct Shell {
    port: String,
    key: String,
    value: String,
    count: u32,
}

impl Shell {
    fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port])
            .args(arguments)
            .output()
            .expect("redis-cli comes with redis-server");
        assert!(output.status.success(), "redis-cli {arguments:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn delete_if(&self, key: &str, value: &str) -> bool {
        self.cli(&["EVAL", DELETE_IF, "1", key, value]) == "1"
    }
}

impl Peer for Shell {
    fn acquire(&mut self, key: &str, ttl: Duration) -> bool {
        self.count += 1;
        let value = format!("shell-{}", self.count);
        let ttl = ttl.as_millis().to_string();
        let taken = self.cli(&["SET", key, &value, "NX", "PX", &ttl]) == "OK";
        if taken {
            key.clone_into(&mut self.key);
            self.value = value;
        }
        taken
    }

    fn wait_for(&mut self, key: &str) -> bool {
        wait::try_until(PATIENCE, || self.acquire(key, TTL)).is_some()
    }

    fn release(&mut self) -> bool {
        self.delete_if(&self.key, &self.value)
    }

    fn forge(&mut self, key: &str) -> bool {
        self.delete_if(key, "forged")
    }
}

#[test]
fn a_shell_script_and_leasehold_exclude_each_other() {
    super::exclude_each_other(|server| {
        Box::new(Shell {
            port: server.port().to_string(),
            key: String::new(),
            value: String::new(),
            count: 0,
        })
    });
}

//! The network between the members of an ensemble, which can cut one member off from all.
//!
//! Each member knows every other one by its name, and has a file that says where they are. Each two
//! members have an address of their own, where a proxy listens. Either of them may connect.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::pipe::{Flow, Pipe};

/// How long a member that connects is not told that the other one does not listen. A follower tries
/// again when a new leader refuses it, and gives the leader up when the connection ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// The proxies between each two members.
#[derive(Debug)]
pub struct Network {
    links: Vec<Link>,
}

/// A proxy by which one member reaches a port of another.
#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    pipe: Pipe,
}

impl Network {
    /// `ports` are those of each member for the rest of them.
    pub(super) fn between(ports: &[[u16; 2]]) -> Self {
        let mut links = Vec::new();
        for from in 0..ports.len() {
            for (to, ports) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
                for port in *ports {
                    let seen = SocketAddr::from((address(from, to), port));
                    let real = SocketAddr::from((address(to, to), port));
                    let pipe = Pipe::start_at(seen, real, PATIENCE);
                    links.push(Link { from, to, pipe });
                }
            }
        }
        Self { links }
    }

    /// The hosts file of a member.
    pub(super) fn hosts(&self, from: usize) -> String {
        let mut hosts = format!("{} {}\n", address(from, from), host(from));
        for link in self.links.iter().filter(|link| link.from == from) {
            let _ = writeln!(hosts, "{} {}", address(from, link.to), host(link.to));
        }
        hosts
    }

    /// Sets what becomes of bytes between a member and the rest. Clients reach it as before.
    pub fn set(&self, member: usize, flow: Flow) {
        for link in self.links_of(member) {
            link.pipe.set(flow);
        }
    }

    /// Closes all connections between a member and the rest.
    pub fn cut(&self, member: usize) {
        for link in self.links_of(member) {
            link.pipe.cut();
        }
    }

    fn links_of(&self, member: usize) -> impl Iterator<Item = &Link> {
        let links = self.links.iter();
        links.filter(move |link| link.from == member || link.to == member)
    }
}

/// The name of a member.
pub(super) fn host(member: usize) -> String {
    format!("member{}", member + 1)
}

/// Where `from` finds `to`; a member listens where it finds itself.
fn address(from: usize, to: usize) -> Ipv4Addr {
    let part = |member: usize| u8::try_from(member + 1).expect("few members");
    Ipv4Addr::new(127, 0, part(from), part(to))
}

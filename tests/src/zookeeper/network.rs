//! The network between the members of an ensemble, which can cut a member off from the others.
//!
//! Each member knows the others by names, and has a file that says where these are: at an address
//! for each two members, where a proxy listens. Two members may connect to each other both ways.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use crate::pipe::{Flow, Pipe};

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
    /// `ports` are those of each member for the others.
    pub(super) fn between(ports: &[[u16; 2]]) -> Self {
        let mut links = Vec::new();
        for from in 0..ports.len() {
            for (to, ports) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
                for port in *ports {
                    let seen = SocketAddr::from((address(from, to), port));
                    let real = SocketAddr::from((address(to, to), port));
                    let pipe = Pipe::start_at(seen, real);
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

    /// Sets what becomes of bytes between a member and the others. Clients reach it as before.
    pub fn set(&self, member: usize, flow: Flow) {
        for link in self.links_of(member) {
            link.pipe.set(flow);
        }
    }

    /// Closes all connections between a member and the others.
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

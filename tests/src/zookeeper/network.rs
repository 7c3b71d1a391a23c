//! The network between the members of an ensemble. It can cut one member off from all others.
//!
//! Members find each other by name. Each member has a hosts file that maps the name of each other
//! member to the address of a proxy. Each pair of members has two such addresses, one for each
//! direction, because either member may connect.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::pipe::{Flow, Pipe};

/// Time for which a proxy keeps a follower's connection open while the new leader behind the proxy
/// does not listen yet. Without a proxy, such a connection is refused, and the follower retries. A
/// proxy has already accepted the connection, so it could only close it, and the follower would
/// then abandon the leader.
const PATIENCE: Duration = Duration::from_secs(1);

/// The proxies between the members.
#[derive(Debug)]
pub struct Network {
    links: Vec<Link>,
}

/// A proxy through which one member reaches a port of another member.
#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    pipe: Pipe,
}

impl Network {
    /// Starts the proxies. `ports` contains, for each member, the ports on which it accepts
    /// connections of the other members.
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

    /// The text of the hosts file of one member.
    pub(super) fn hosts(&self, from: usize) -> String {
        let mut hosts = format!("{} {}\n", address(from, from), host(from));
        for link in self.links.iter().filter(|link| link.from == from) {
            let _ = writeln!(hosts, "{} {}", address(from, link.to), host(link.to));
        }
        hosts
    }

    /// Sets the treatment of bytes between one member and all others. Clients can still reach the
    /// member.
    pub fn set(&self, member: usize, flow: Flow) {
        for link in self.links_of(member) {
            link.pipe.set(flow);
        }
    }

    /// Closes all connections between one member and all others.
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

/// The host name of a member.
pub(super) fn host(member: usize) -> String {
    format!("member{}", member + 1)
}

/// The address at which `from` reaches `to`. If `from` and `to` are the same member, the result is
/// the address at which this member listens.
fn address(from: usize, to: usize) -> Ipv4Addr {
    let part = |member: usize| u8::try_from(member + 1).expect("few members");
    Ipv4Addr::new(127, 0, part(from), part(to))
}

//! Tests of `redlock://`: locks on a quorum of real, independent servers.

mod cleaning;
mod compatible;
mod conforms;
mod minority;
mod missing_locks;
mod nodes;
mod refused;
mod renewing;
mod restarts;
mod speed;

//! `redlock://`: locks on a quorum of real, independent servers.

mod cleaning;
mod compatible;
mod conforms;
mod gone;
mod minority;
mod nodes;
mod refused;
mod renewing;
mod restarts;
mod speed;

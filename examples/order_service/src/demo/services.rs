//! The two services, as processes or as pools in this process.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::LockPool;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::config::Config;
use crate::db::Db;
use crate::payments::Payments;
use crate::server::StartError;

pub(crate) const NAMES: [&str; 2] = ["A", "B"];
/// The lock store in memory, for two services in this process. It needs no server.
const MEMORY: &str = "memory://shop";
/// Maximum time for a service to stop.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Services {
    /// Settings for starting a service as a process. `None` if both services are in this process.
    config: Option<Config>,
    running: Mutex<Vec<Running>>,
    /// All started processes, including the killed ones.
    processes: Mutex<Vec<(u32, &'static str)>>,
    /// A pool on the services' lock store. It finds the holder of a lock for the page.
    locks: LockPool,
}

/// A running service.
#[derive(Debug)]
struct Running {
    at: At,
    process: Option<Child>,
}

/// Name and address of a service.
#[derive(Debug, Clone)]
pub(crate) struct At {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// Text that names the process, or the pool in this process.
    pub(crate) place: String,
}

/// A service, as shown on the page.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    name: &'static str,
    place: String,
    can_be_killed: bool,
}

impl Services {
    pub(crate) async fn start(config: &Config, db: Db) -> Result<Self, StartError> {
        let url = std::env::var("LEASEHOLD_URL").unwrap_or_default();
        let in_process = url.is_empty() || url.starts_with("memory:");
        let locks = if in_process {
            LockPool::connect(MEMORY).await?
        } else {
            leasehold::init_from_env().await?;
            leasehold::pool()?
        };
        let services = Self {
            config: (!in_process).then(|| config.clone()),
            running: Mutex::default(),
            processes: Mutex::default(),
            locks,
        };
        for name in NAMES {
            services.add(if in_process {
                let payments = Payments::new(db.clone(), config.payment_ms);
                start_here(name, db.clone(), payments).await?
            } else {
                start_process(name, config).await?
            });
        }
        Ok(services)
    }

    fn add(&self, service: Running) {
        if let Some(id) = service.process.as_ref().and_then(Child::id) {
            let mut processes = self
                .processes
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            processes.push((id, service.at.name));
        }
        let mut running = self.lock();
        running.push(service);
        running.sort_by_key(|service| service.at.name);
    }

    /// Returns the service whose current or killed process has this id.
    pub(crate) fn of_process(&self, id: u32) -> Option<&'static str> {
        let processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = processes.iter().rev().find(|(known, _)| *known == id);
        found.map(|(_, name)| *name)
    }

    pub(crate) fn locks(&self) -> &LockPool {
        &self.locks
    }

    pub(crate) fn running(&self) -> Vec<At> {
        self.lock()
            .iter()
            .map(|service| service.at.clone())
            .collect()
    }

    pub(crate) fn named(&self, name: &str) -> Option<At> {
        self.running().into_iter().find(|at| at.name == name)
    }

    pub(crate) fn can_be_killed(&self) -> bool {
        self.config.is_some()
    }

    pub(crate) fn views(&self) -> Vec<View> {
        let view = |at: At| View {
            name: at.name,
            place: at.place,
            can_be_killed: self.can_be_killed(),
        };
        self.running().into_iter().map(view).collect()
    }

    /// Kills the process of a service with SIGKILL, so that it sends no answer and releases no
    /// lock.
    pub(crate) async fn kill(&self, name: &str) -> std::io::Result<()> {
        let process = {
            let mut running = self.lock();
            let at = running.iter().position(|service| service.at.name == name);
            at.and_then(|at| running.remove(at).process)
        };
        match process {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts the killed processes again.
    pub(crate) async fn restart(&self) -> Result<(), StartError> {
        let Some(config) = &self.config else {
            return Ok(());
        };
        for name in NAMES {
            if self.named(name).is_none() {
                self.add(start_process(name, config).await?);
            }
        }
        Ok(())
    }

    /// Stops the processes by closing their standard input, and waits for their end.
    pub(crate) async fn stop(&self) {
        let all = std::mem::take(&mut *self.lock());
        let mut processes: Vec<_> = all.into_iter().filter_map(|one| one.process).collect();
        for process in &mut processes {
            process.stdin = None;
        }
        for process in &mut processes {
            let _ = tokio::time::timeout(PATIENCE, process.wait()).await; // else killed on drop
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn start_here(name: &'static str, db: Db, payments: Payments) -> Result<Running, StartError> {
    let locks = LockPool::connect(MEMORY).await?;
    let app = super::service(name, db, payments, locks);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(Running {
        at: At {
            name,
            address,
            place: format!("pool {name} in process {}", std::process::id()),
        },
        process: None,
    })
}

async fn start_process(name: &'static str, config: &Config) -> Result<Running, StartError> {
    let payment_ms = config.payment_ms.as_millis().to_string();
    let mut process = Command::new(std::env::current_exe()?)
        .args(["--demo-service", name, "--listen", "127.0.0.1:0"])
        .args(["--payment-ms", &payment_ms])
        .arg("--database")
        .arg(&config.database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
    let line = lines.next_line().await?.unwrap_or_default();
    let address = line.strip_prefix("listening on http://");
    let address = address.and_then(|address| address.parse().ok());
    let address = address.ok_or(StartError::Service(name))?;
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(Running {
        at: At {
            name,
            address,
            place: format!("process {}", process.id().unwrap_or_default()),
        },
        process: Some(process),
    })
}

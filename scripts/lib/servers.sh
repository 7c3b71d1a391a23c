# shellcheck shell=bash
# Installs the servers and clients of the tests. Sourced after packages.sh and zookeeper.sh,
# not run.

# need_servers TARGET: installs the missing servers and clients.
need_servers() {
    need 'a C compiler' 'cc --version' gcc gcc 'gcc musl-dev' gcc
    need redis-server 'redis-server --version && redis-cli --version' \
        redis-server 'redis|valkey-compat-redis' redis redis
    need 'PostgreSQL 13 or later' 'ls /usr/lib/postgresql/*/bin/postgres || postgres --version' \
        postgresql postgresql-server 'postgresql postgresql-contrib' postgresql
    need pgbouncer 'pgbouncer --version || /usr/sbin/pgbouncer --version' \
        pgbouncer pgbouncer pgbouncer pgbouncer
    need 'etcd 3.4 or later' 'etcd --version' etcd-server etcd etcd etcd
    # Sets the clock of a single server.
    need faketime 'faketime --version' faketime libfaketime libfaketime libfaketime
    need 'Python 3' 'python3 --version' python3 python3 python3 python3
    install_redis_py "$1"
    install_zookeeper "$1"
}

# install_redis_py TARGET: installs redis-py in a virtual environment under TARGET.
install_redis_py() {
    local venv=$1/test-venv
    if ! "$venv/bin/python" -c 'import redis.lock' 2>/dev/null; then
        need 'the Python module venv' 'python3 -c "import ensurepip, venv"' \
            python3-venv python3 python3 python3
        python3 -m venv --clear "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check redis
    fi
    LEASEHOLD_TEST_PYTHON=$(cd "$venv/bin" && pwd)/python
    export LEASEHOLD_TEST_PYTHON
}

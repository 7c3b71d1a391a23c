# shellcheck shell=bash
# Starts a Redis or a PostgreSQL, and two order services, on free loopback ports. Sourced, not run.
# At its end, the script stops all processes that it started, by their process ids. `target` is the
# folder in which Cargo builds.

shop_pids=()
shop_dir=
# shellcheck disable=SC2034 # the scripts that source this use them
store_url='' database='' service_1='' service_2=''

# shop_start redis|postgres ORDER_SERVICE_ARGUMENT...: starts the server and both services. Sets
# store_url, database, service_1 and service_2. PostgreSQL stores the data beside the locks.
shop_start() {
    local store=$1 data
    shift
    shop_dir=$(mktemp -d "${TMPDIR:-/tmp}/leasehold-shop.XXXXXX")
    trap shop_stop EXIT
    trap 'exit 130' INT TERM
    "${store}_start"
    database=$shop_dir/shop.sqlite
    data=(--database "$database")
    [ "$store" = redis ] || data=(--store "$store_url")
    service_start 1 "${data[@]}" "$@"
    service_start 2 "${data[@]}" "$@"
}

shop_stop() {
    local pid
    for pid in "${shop_pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${shop_pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$shop_dir"
}

redis_start() {
    local port pid
    for _ in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 10000))
        redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no \
            --dir "$shop_dir" >"$shop_dir/redis.log" 2>&1 &
        pid=$!
        while kill -0 "$pid" 2>/dev/null; do
            # Another server may have taken the port. Its answer must not count.
            if [[ $(redis-cli -p "$port" info server 2>/dev/null) == *"process_id:$pid"* ]]; then
                shop_pids+=("$pid")
                store_url=redis://127.0.0.1:$port/
                return
            fi
            sleep 0.05
        done
    done
    echo "redis-server does not start:" >&2
    cat "$shop_dir/redis.log" >&2
    exit 1
}

# PostgreSQL does not run as root, so its own user owns the folder of the data.
postgres_start() {
    local port pid bin user=() data=$shop_dir/postgres
    bin=$(find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1)
    bin=$(dirname "${bin:-$(command -v postgres)}")
    mkdir "$data"
    if [ "$(id -u)" = 0 ]; then
        chmod 755 "$shop_dir"
        chown postgres "$data"
        user=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    fi
    "${user[@]}" "$bin/initdb" -D "$data" -U shop -A trust -E UTF8 --locale=C >"$shop_dir/postgres.log"
    port=$((20000 + RANDOM % 10000))
    "${user[@]}" "$bin/postgres" -D "$data" -k '' -p "$port" -c listen_addresses=127.0.0.1 \
        >>"$shop_dir/postgres.log" 2>&1 &
    pid=$!
    shop_pids+=("$pid")
    store_url=postgres://shop@127.0.0.1:$port/postgres
    until psql -q "$store_url" -c '' 2>/dev/null; do
        if ! kill -0 "$pid" 2>/dev/null; then
            cat "$shop_dir/postgres.log" >&2
            exit 1
        fi
        sleep 0.05
    done
}

# service_start NUMBER ARGUMENT...
service_start() {
    local number=$1 log=$shop_dir/service_$1.log pid address
    shift
    : >"$log" # so that it can be read before the service has opened it
    LEASEHOLD_URL=$store_url "${target:?}/release/order_service" --listen 127.0.0.1:0 \
        "$@" >"$log" 2>&1 &
    pid=$!
    shop_pids=("$pid" "${shop_pids[@]}") # stopped before the Redis
    while kill -0 "$pid" 2>/dev/null; do
        address=$(sed -n 's/^listening on //p' "$log")
        if [ -n "$address" ]; then
            printf -v "service_$number" %s "$address"
            return
        fi
        sleep 0.05
    done
    echo "the order service does not start:" >&2
    cat "$log" >&2
    exit 1
}

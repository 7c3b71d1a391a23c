# shellcheck shell=bash
# A Redis and two order services on free loopback ports. Sourced, not run. When the script ends it
# stops everything that it started, by its process id. `target` is the folder that Cargo builds in.

shop_pids=()
shop_dir=
# shellcheck disable=SC2034 # the scripts that source this use them
redis_url='' database='' service_1='' service_2=''

# shop_start ORDER_SERVICE_ARGUMENT...: sets redis_url, database, service_1 and service_2.
shop_start() {
    shop_dir=$(mktemp -d "${TMPDIR:-/tmp}/leasehold-shop.XXXXXX")
    trap shop_stop EXIT
    trap 'exit 130' INT TERM
    redis_start
    database=$shop_dir/shop.sqlite
    service_start 1 "$@"
    service_start 2 "$@"
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
            # Another server may have taken the port; its answer must not count.
            if redis-cli -p "$port" info server 2>/dev/null | grep -q "process_id:$pid"; then
                shop_pids+=("$pid")
                redis_url=redis://127.0.0.1:$port/
                return
            fi
            sleep 0.05
        done
    done
    echo "redis-server does not start:" >&2
    cat "$shop_dir/redis.log" >&2
    exit 1
}

# service_start NUMBER ARGUMENT...
service_start() {
    local number=$1 log=$shop_dir/service_$1.log pid address
    shift
    : >"$log" # so that it can be read before the service has opened it
    LEASEHOLD_URL=$redis_url "${target:?}/release/order_service" --listen 127.0.0.1:0 \
        --database "$database" "$@" >"$log" 2>&1 &
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

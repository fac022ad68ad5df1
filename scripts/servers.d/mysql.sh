# Private servers for the tests of idem-mysql, on loopback: MariaDB, the system's package.
# Sourced, not run; needs scripts/lib.sh.
#
#   IDEM_MYSQL_URL          a user who may make and drop databases
#   IDEM_MYSQL_LATIN1_URL   the same where the server's collation is latin1_swedish_ci,
#   IDEM_MYSQL_GENERAL_URL  utf8mb4_general_ci
#   IDEM_MYSQL_BIN_URL      and utf8mb4_bin
#
# Where IDEM_MYSQL_URL is set already no server is started, and the others are that server too: so
# the same tests run on any server, MySQL included, with the collations set on each database.
# Tests that kill a server start MariaDB themselves, by this file.

mysql_start() {
  local dir=$1 port home
  mkdir -p "$dir"
  mysql_install
  if [ -n "${IDEM_MYSQL_URL:-}" ]; then
    export IDEM_MYSQL_LATIN1_URL=${IDEM_MYSQL_LATIN1_URL:-$IDEM_MYSQL_URL}
    export IDEM_MYSQL_GENERAL_URL=${IDEM_MYSQL_GENERAL_URL:-$IDEM_MYSQL_URL}
    export IDEM_MYSQL_BIN_URL=${IDEM_MYSQL_BIN_URL:-$IDEM_MYSQL_URL}
    return 0
  fi
  home=$(mysql_home "$dir")
  mysql_launch "$home/server" --innodb-buffer-pool-size=256M
  export IDEM_MYSQL_URL=mysql://idem:idem@127.0.0.1:$port/idem
  mysql_launch "$home/latin1" --character-set-server=latin1 --collation-server=latin1_swedish_ci
  export IDEM_MYSQL_LATIN1_URL=mysql://idem:idem@127.0.0.1:$port/idem
  mysql_launch "$home/general" --character-set-server=utf8mb4 --collation-server=utf8mb4_general_ci
  export IDEM_MYSQL_GENERAL_URL=mysql://idem:idem@127.0.0.1:$port/idem
  mysql_launch "$home/bin" --character-set-server=utf8mb4 --collation-server=utf8mb4_bin
  export IDEM_MYSQL_BIN_URL=mysql://idem:idem@127.0.0.1:$port/idem
}

mysql_stop() {
  local home file
  [ -e "$1/home" ] || return 0
  home=$(cat "$1/home")
  for file in "$home"/*/pid; do
    [ -e "$file" ] && mysql_end "$(cat "$file")"
  done
  rm -rf "$home" "$1/home"
}

# Ends one server by its id: in order, and by force when that takes too long.
mysql_end() {
  kill -TERM "$1" 2>/dev/null || return 0
  for _ in $(seq 200); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done
  kill -KILL "$1" 2>/dev/null || true
}

mysql_install() {
  export PATH=$PATH:/usr/sbin
  # For a free port.
  install python3 python3
  install mariadb-server mariadbd
  command -v mariadb-install-db >/dev/null 2>&1 || install mariadb-server mariadb-install-db
  install mariadb-client mariadb
}

# A folder that the server's user owns; mysql_stop removes it.
mysql_home() {
  local home
  home=$(mktemp -d "${TMPDIR:-/tmp}/idem-mysql-XXXXXX")
  [ "$(id -u)" != 0 ] || chown mysql: "$home"
  printf '%s\n' "$home" >"$1/home"
  printf '%s\n' "$home"
}

# mysql_spawn DIR COMMAND...: starts a server, and writes its own id and not a shell's.
mysql_spawn() {
  local dir=$1
  shift
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=mysql --regid=mysql --clear-groups -- "$@" >>"$dir/log" 2>&1 </dev/null &
  else
    "$@" >>"$dir/log" 2>&1 </dev/null &
  fi
  printf '%s\n' $! >"$dir/pid"
}

# mysql_launch DIR [OPTION...]: makes the server's files if there are none, starts it, and sets
# the caller's $port. The port stays the same when a server is started again.
mysql_launch() {
  local dir=$1
  shift
  if [ ! -e "$dir/port" ]; then
    mkdir -p "$dir/tmp"
    mysql_make "$dir" ||
      die "the server's files could not be made: $(grep -i -m 5 'error' "$dir/install.log")"
    mysql_free_port >"$dir/port"
  fi
  port=$(cat "$dir/port")
  mysql_spawn "$dir" mariadbd --no-defaults --datadir="$dir/data" --tmpdir="$dir/tmp" \
    --bind-address=127.0.0.1 --port="$port" --socket="$dir/socket" --pid-file="$dir/server.pid" \
    --skip-name-resolve --max-connections=400 "$@"
  mysql_until_ready "$port" "$dir/log"
}

mysql_make() {
  local dir=$1 user=()
  if [ "$(id -u)" = 0 ]; then
    user=(--user=mysql)
    chown -R mysql: "$dir"
  fi
  # A server that starts removes what it finds in the folder of temporary tables: each has its own.
  TMPDIR=$dir/tmp mariadb-install-db --no-defaults --datadir="$dir/data" "${user[@]}" \
    --auth-root-authentication-method=normal --skip-test-db >"$dir/install.log" 2>&1 || return 1
  cat >"$dir/users.sql" <<'SQL'
CREATE USER IF NOT EXISTS idem@'127.0.0.1' IDENTIFIED BY 'idem';
GRANT ALL PRIVILEGES ON *.* TO idem@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS idem;
SQL
  mysql_bootstrap "$dir" >>"$dir/install.log" 2>&1
}

# Runs users.sql without a server that others could reach.
mysql_bootstrap() {
  local dir=$1
  local command=(mariadbd --no-defaults --datadir="$dir/data" --tmpdir="$dir/tmp" --bootstrap)
  { printf 'FLUSH PRIVILEGES;\n'; tr '\n' ' ' <"$dir/users.sql" | sed 's/;/;\n/g'; } |
    if [ "$(id -u)" = 0 ]; then
      setpriv --reuid=mysql --regid=mysql --clear-groups -- "${command[@]}"
    else
      "${command[@]}"
    fi
}

mysql_until_ready() {
  local _
  for _ in $(seq 600); do
    MYSQL_PWD=idem mariadb --no-defaults -u idem -h 127.0.0.1 -P "$1" -e 'SELECT 1' >/dev/null 2>&1 &&
      return 0
    sleep 0.1
  done
  die "the server on port $1 did not start: $(tail -n 5 "$2")"
}

mysql_free_port() {
  python3 - <<'PYTHON'
import socket
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    print(probe.getsockname()[1])
PYTHON
}

# Shared by scripts/test and .ci/run. Sourced, not run.

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# install PACKAGE COMMAND: makes COMMAND available through the system's package manager.
install() {
  command -v "$2" >/dev/null 2>&1 && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing $1"
    [ -n "${IDEM_APT_UPDATED:-}" ] || { apt-get -qq update; export IDEM_APT_UPDATED=1; }
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "$1" >/dev/null
  fi
  command -v "$2" >/dev/null 2>&1 || die "'$2' is missing; install the package '$1' and run this again"
}

need_rust() {
  command -v cargo >/dev/null 2>&1 || die "cargo is missing; install Rust with rustup"
  local wanted have
  wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  have=$(rustc --version | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p')
  [ "$have" = "$wanted" ] || [ -n "${IDEM_ANY_RUST:-}" ] ||
    die "the stated minimum is Rust $wanted and this is $have; set IDEM_ANY_RUST=1 to test with it all the same"
}

# SQLite is compiled from its bundled source.
need_cc() { install gcc cc; }

# start_servers PART...: starts the servers that these parts need, and stops them at exit.
start_servers() {
  IDEM_SERVERS=$(mktemp -d)
  export IDEM_SERVERS
  # The name is fixed now, whatever the variable holds at exit.
  trap "stop_servers '$IDEM_SERVERS'" EXIT
  local part
  for part in "$@"; do
    [ -e "scripts/servers.d/$part.sh" ] || continue
    . "scripts/servers.d/$part.sh"
    say "starting servers for $part"
    mkdir -p "$IDEM_SERVERS/$part"
    # Before it starts: of several servers the first may run when the second fails.
    printf '%s\n' "$part" >>"$IDEM_SERVERS/started"
    "${part}_start" "$IDEM_SERVERS/$part"
  done
}

stop_servers() {
  local part
  if [ -e "$1/started" ]; then
    while read -r part; do "${part}_stop" "$1/$part" || true; done <"$1/started"
  fi
  rm -rf "$1"
}

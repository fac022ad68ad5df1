# The servers that the tests of the binary need. Sourced, not run; needs scripts/lib.sh.

. scripts/servers.d/postgres.sh

cli_start() {
  # One server is enough for them.
  IDEM_POSTGRES18_URL=${IDEM_POSTGRES18_URL:-unused} IDEM_PGBOUNCER_URL=${IDEM_PGBOUNCER_URL:-unused} \
    postgres_start "$1"
}

cli_stop() {
  postgres_stop "$1"
}

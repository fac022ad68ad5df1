# The servers that the command line's tests use: one of each sort. Sourced, not run; needs
# scripts/lib.sh.

. scripts/servers.d/mysql.sh
. scripts/servers.d/postgres.sh
. scripts/servers.d/redis.sh

cli_start() {
  mkdir -p "$1/mysql" "$1/postgres" "$1/redis"
  # One server of each sort is enough for them.
  IDEM_POSTGRES18_URL=${IDEM_POSTGRES18_URL:-unused} postgres_start "$1/postgres"
  IDEM_REDIS8_SERVER=${IDEM_REDIS8_SERVER:-unused} IDEM_REDIS8_URL=${IDEM_REDIS8_URL:-unused} \
    IDEM_VALKEY_SERVER=${IDEM_VALKEY_SERVER:-unused} IDEM_VALKEY_URL=${IDEM_VALKEY_URL:-unused} \
    redis_start "$1/redis"
  cli_start_mysql "$1/mysql"
}

# The server with the default collation only.
cli_start_mysql() {
  [ -z "${IDEM_MYSQL_URL:-}" ] || return 0
  local home port
  mysql_install
  home=$(mysql_home "$1")
  mysql_launch "$home/server"
  export IDEM_MYSQL_URL=mysql://idem:idem@127.0.0.1:$port/mysql
}

cli_stop() {
  mysql_stop "$1/mysql"
  postgres_stop "$1/postgres"
  redis_stop "$1/redis"
}

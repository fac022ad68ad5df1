# The server that the sinks' tests use: one Redis. Sourced, not run; needs scripts/lib.sh.

. scripts/servers.d/redis.sh

relay_start() {
  IDEM_REDIS8_SERVER=${IDEM_REDIS8_SERVER:-unused} IDEM_REDIS8_URL=${IDEM_REDIS8_URL:-unused} \
    IDEM_VALKEY_SERVER=${IDEM_VALKEY_SERVER:-unused} IDEM_VALKEY_URL=${IDEM_VALKEY_URL:-unused} \
    IDEM_REDIS_CLUSTER_URL=${IDEM_REDIS_CLUSTER_URL:-unused} redis_start "$1"
}

relay_stop() {
  redis_stop "$1"
}

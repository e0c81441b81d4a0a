# Sourced by ./test, ./torture and scripts/bench: a private PostgreSQL cluster in a temporary folder, on a free port.
#
#   pg_start FOLDER [server options]   starts it, sets pg_url
#   pg_stop                            stops it; call from a trap

pg_bin=
pg_folder=
pg_url=

# PostgreSQL refuses to run as root.
pg_as_owner() {
  if [ "$(id -u)" = 0 ]; then (cd /; runuser -u postgres -- "$@"); else "$@"; fi
}

pg_find() {
  local dir
  for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
    if [ -x "$dir/initdb" ]; then pg_bin=$dir; return 0; fi
  done
  return 1
}

pg_install() {
  if [ "$(id -u)" != 0 ]; then
    echo "error: PostgreSQL is missing and installing it needs root" >&2
    echo "hint: install Debian's package postgresql" >&2
    return 1
  fi
  # Do not create the system cluster of the package.
  mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql
}

pg_start() {
  pg_folder=$1
  shift
  pg_find || { pg_install && pg_find; } || return 1
  mkdir -p "$pg_folder"
  chmod 755 "$(dirname "$pg_folder")"
  if [ "$(id -u)" = 0 ]; then chown postgres "$pg_folder"; fi
  pg_as_owner "$pg_bin/initdb" -D "$pg_folder/data" -U patra -A trust -E UTF8 --no-locale --no-sync >/dev/null
  local port
  for _ in 1 2 3 4 5 6 7 8; do
    # Below the range of ephemeral ports.
    port=$((20000 + RANDOM % 12000))
    if pg_as_owner "$pg_bin/pg_ctl" -D "$pg_folder/data" -l "$pg_folder/log" -w -t 30 \
      -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories='$pg_folder' -c max_connections=200 $*" start >/dev/null; then
      pg_as_owner "$pg_bin/createdb" -h 127.0.0.1 -p "$port" -U patra patra
      pg_url="postgres://patra@127.0.0.1:$port/patra"
      return 0
    fi
  done
  echo "error: PostgreSQL did not start; its log:" >&2
  tail -n 20 "$pg_folder/log" >&2
  return 1
}

pg_stop() {
  if [ -n "$pg_bin" ] && [ -f "$pg_folder/data/postmaster.pid" ]; then
    pg_as_owner "$pg_bin/pg_ctl" -D "$pg_folder/data" -m immediate -w stop >/dev/null 2>&1 || true
  fi
}

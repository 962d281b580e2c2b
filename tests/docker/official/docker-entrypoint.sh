#!/usr/bin/env bash
# Starts PostgreSQL as the user postgres; the first start makes the cluster and the database, and runs /docker-entrypoint-initdb.d.
set -euo pipefail

main() {
    if [ "$1" = postgres ] && [ "$(id -u)" = 0 ]; then
        install -d -m 0700 -o postgres -g postgres "$PGDATA"
        install -d -m 3775 -o postgres -g postgres /var/run/postgresql
        exec gosu postgres "${BASH_SOURCE[0]}" "$@"
    fi
    if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then first_start; fi
    exec "$@"
}

first_start() {
    export POSTGRES_USER="${POSTGRES_USER:-postgres}"
    export POSTGRES_DB="${POSTGRES_DB:-$POSTGRES_USER}"
    : "${POSTGRES_PASSWORD:?must be set}"
    initdb --username="$POSTGRES_USER" --pwfile=<(echo "$POSTGRES_PASSWORD") >/dev/null
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    export PGPASSWORD=$POSTGRES_PASSWORD
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
    if [ "$POSTGRES_DB" != postgres ]; then createdb --username "$POSTGRES_USER" --maintenance-db postgres "$POSTGRES_DB"; fi
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        echo "running $file"
        case $file in
            *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
            *.sql) psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" -f "$file" ;;
        esac
    done
    pg_ctl -D "$PGDATA" -m fast -w stop
    unset PGPASSWORD
    echo "init process complete"
}

main "$@"

#!/bin/sh
# Make the passwords that infra/compose.yaml reads, each once, in infra/secrets. Those that are there stay.
set -eu
umask 077
mkdir -p "$(dirname "$0")/secrets"
cd "$(dirname "$0")/secrets"

random() {
    head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'
}

# The group or others must not read the folder; containers read its files as another user.
write() {
    [ -s "$1" ] || printf '%s' "$2" >"$1"
    chmod 644 "$1"
}

write postgres_password "$(random | tr -d '=')"
write airflow_database "postgresql+psycopg://airflow:$(cat postgres_password)@postgres:5432/airflow"
write airflow_jwt "$(random)"
write airflow_api "$(random)"
write airflow_fernet "$(random)"
write airflow_passwords "{\"admin\": \"$(random)\"}"
write s3_user inset
write s3_password "$(random)"
write grafana_password "$(random)"
write metrics_key none
[ -e query_keys ] || : >query_keys
chmod 644 query_keys

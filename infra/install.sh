#!/bin/sh
# Install Inset and what some of its extras need into .venv, each package held to the digest in the lock. Called by make.
# Arguments: a Python, and the extras.
#
# pip takes many minutes for what uv does in one, so pip's only job is to fetch uv. Where pip was told of a mirror or of
# certificates, uv is told too.
set -eu
cd "$(dirname "$0")/.."
python=$1
shift

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null ||
    fail "Inset needs Python 3.11 or 3.12; '$python' isn't one. If it is elsewhere: make install PYTHON=/path/to/python3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "'$python' can't make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"

if ! .venv/bin/python -c '' 2>/dev/null; then
    echo "making .venv"
    "$python" -m venv --clear .venv
fi
if ! .venv/bin/uv --version >/dev/null 2>&1; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8,<1'
fi

pip_says() {
    .venv/bin/python -m pip config get "global.$1" 2>/dev/null || true
}
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(pip_says index-url)}}
certificates=${SSL_CERT_FILE:-${PIP_CERT:-$(pip_says cert)}}
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
[ -z "$certificates" ] || export SSL_CERT_FILE="$certificates"
export VIRTUAL_ENV="$PWD/.venv" UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-300}"

echo "installing into .venv; the first time this takes a few minutes"
extras=$(printf -- '--extra %s ' "$@")
# shellcheck disable=SC2086  # a word each
.venv/bin/uv pip install --quiet --require-hashes -r pyproject.toml $extras -c infra/requirements.lock
.venv/bin/uv pip install --quiet --no-deps --editable .
# What the build leaves here describes Inset a second time to whoever has this folder on PYTHONPATH: Airflow would find the plugin twice.
rm -rf inset.egg-info

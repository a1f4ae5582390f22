# shellcheck shell=bash
# Sourced by quickstart and test: missing packages, configure, build. Works from any directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=$(nproc 2> /dev/null || echo 2)

# Names of the packages of one sort ("needed" or "extra") that are not installed.
missing_packages() {
    local name sort status
    while read -r name sort _; do
        [[ $sort == "$1" ]] || continue
        status=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2> /dev/null || true)
        [[ $status == installed ]] || echo "$name"
    done < scripts/packages
}

# install_packages [SORT...]: "needed" unless said otherwise; "extra" ones are what optional tests use.
install_packages() {
    if ! command -v dpkg-query > /dev/null; then
        echo "not a Debian system: going on without installing; scripts/packages names what is needed" >&2
        return
    fi
    local missing as_root=()
    mapfile -t missing < <(for sort in "${@:-needed}"; do missing_packages "$sort"; done)
    ((${#missing[@]} > 0)) || return 0
    if ((EUID != 0)); then
        if command -v sudo > /dev/null && { [[ -t 0 ]] || sudo -n true 2> /dev/null; }; then
            as_root=(sudo)
        else
            echo "packages are missing; run this as root, then start again:" >&2
            echo "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
            exit 4
        fi
    fi
    echo "installing: ${missing[*]}"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}"
}

# configure_and_build PRESET [TARGET...]: quiet unless something fails; nothing is rebuilt that is up to date.
configure_and_build() {
    local preset=$1 log="build/$1.log" targets=()
    shift
    mkdir -p build
    if command -v ccache > /dev/null; then export CMAKE_C_COMPILER_LAUNCHER=ccache; fi
    (($# == 0)) || targets=(--target "$@")
    echo "building ($preset)"
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"; } > "$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "the build failed; all of its output is in $log" >&2
        return 1
    fi
}

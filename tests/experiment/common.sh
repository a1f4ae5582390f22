# shellcheck shell=bash
# Sourced by the tests of experiments: a folder to work in, an experiment of 100 points, and small helpers.
set -euo pipefail
unset NIBBLE_ISA OMP_NUM_THREADS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
cleanup() {
    local pid
    for pid in $(jobs -p); do kill -9 "$pid" 2> /dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

# hundred COUNT: an experiment of 100 points, each of COUNT elements.
hundred() {
    cat > hundred.yaml << END
kind: experiment
title: A hundred points
job: bias
sweep:
  quantizer: [e2m1-fp32, e1m2-fp32, te-nvfp4, ocp-mxfp4]
  dist: [gaussian, laplace, t3, uniform, logistic]
  seed: {from: 1, to: 5}
set: {count: $1}
keep: [count, b, one_minus_alpha, b_relative, sqnr_db]
END
}

# digest COMMAND...: the digest that a run prints.
digest() { "$@" | grep -o 'digest [0-9a-f]*' | cut -d ' ' -f 2; }

fail() {
    echo "failed: $*"
    exit 1
}

have_mpi() { command -v mpirun > /dev/null && command -v nibble-mpi > /dev/null; }
ranks() { mpirun --oversubscribe -n "$1" nibble-mpi "${@:2}"; }

#!/bin/sh
# Runs the tests that need a card: sessions first, alone, since they measure; then all kernels, side by
# side, since each compiles its own. Ten minutes at most. Needs Python 3.11 or later with cupy, numpy,
# ml_dtypes, threadpoolctl, pytest and hypothesis; pytest-xdist and uvloop if there. What has not
# begun in time is skipped, so that the summary always comes.
#
#   sh tests/gpu/run.sh                     from anywhere; PYTHON=... chooses the interpreter, WORKERS=14
#   sh tests/gpu/run.sh -k "gather"         further arguments go to pytest
cd "$(dirname "$0")/../.." || exit 1
PYTHON=${PYTHON:-python3}
export PYTHONPATH=".${PYTHONPATH:+:$PYTHONPATH}"
# The project's own settings ask for a newer pytest than may be there.
options="-q -m gpu -p no:cacheprovider -o addopts=--import-mode=importlib -o filterwarnings=default --tb=short"
workers=""
"$PYTHON" -c "import xdist" 2>/dev/null && workers="-n ${WORKERS:-14}"
"$PYTHON" -c "import cupy; print('cupy', cupy.__version__, cupy.cuda.runtime.getDeviceProperties(0)['name'].decode())"
GPU_TESTS_S=100 timeout 150 "$PYTHON" -m pytest $options tests/gpu/test_sessions.py "$@"
sessions=$?
GPU_TESTS_S=370 timeout 430 "$PYTHON" -m pytest $options $workers tests/gpu/test_kernels.py "$@"
kernels=$?
echo "sessions: exit $sessions, kernels: exit $kernels (0 all held, 1 some failed, 124 out of time)"
[ "$sessions" -eq 0 ] && [ "$kernels" -eq 0 ]

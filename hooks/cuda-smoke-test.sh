#!/bin/sh
# Confirms models by capturing and replaying CUDA graphs: hooks/cuda-smoke-test.sh package.models:build tests/models.py:build ...
# Ends with the worst status of all: 0 replay gives the same, 1 it does not, 2 it could not be told.
set -u
if [ "$#" -eq 0 ]; then
    echo "usage: $0 TARGET..." >&2
    exit 2
fi
worst=0
for target in "$@"; do
    modelguard confirm --device cuda "$target"
    status=$?
    if [ "$status" -gt "$worst" ]; then
        worst=$status
    fi
done
exit "$worst"

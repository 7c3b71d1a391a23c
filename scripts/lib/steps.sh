# shellcheck shell=bash
# Steps with their times. Sourced, not run.

step_name=''

# step NAME: ends the step before, and begins this one.
step() {
    step_done
    step_name=$1
    step_began=$SECONDS
    printf '\n== %s\n' "$1"
}

# step_done: prints how long the step took.
step_done() {
    if [ -n "$step_name" ]; then
        printf '== %s: %d s\n' "$step_name" $((SECONDS - step_began))
        step_name=''
    fi
}

# run_tests ARGUMENT...: cargo test of all packages, then the counts and the five slowest tests. One
# set of features for all steps, so that no crate is built twice.
run_tests() {
    local output=${CARGO_TARGET_DIR:-target}/test-output.txt host outcome=0
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    mkdir -p "${output%/*}"
    env "CARGO_TARGET_${host}_RUNNER=$PWD/scripts/lib/timed-test" cargo test --locked --workspace \
        --all-features --no-fail-fast "$@" 2>&1 | tee "$output" || outcome=1
    echo
    echo 'the slowest tests:'
    sed -nE 's/^test ([^ ]+) .*<([0-9.]+)s>.*/\2 s  \1/p' "$output" | sort -rn | head -5
    awk '/^test result: / { passed += $4; failed += $6 }
         END { printf "%d passed, %d failed\n", passed, failed }' "$output"
    return $outcome
}

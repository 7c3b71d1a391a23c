# shellcheck shell=bash
# Runs the steps of a script, and prints their times. Sourced, not run.

step_name=''

# step NAME: ends the previous step, and begins this one.
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

test_output=${CARGO_TARGET_DIR:-target}/test-output.txt
tests_failed=0

# run_tests ARGUMENT...: runs cargo test for all packages. All steps use the same features, so that
# no crate is built twice.
run_tests() {
    mkdir -p "${test_output%/*}"
    cargo test --locked --workspace --all-features --no-fail-fast "$@" 2>&1 |
        tee -a "$test_output" || tests_failed=1
}

# run_programs ARGUMENT...: like run_tests, but with the time of each test.
run_programs() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${host}_RUNNER=$PWD/scripts/lib/timed-test"
    run_tests "$@"
    unset "CARGO_TARGET_${host}_RUNNER"
}

# sum_up: prints the first failures, the five slowest tests and the counts. Fails if a test has
# failed.
sum_up() {
    step_done
    if [ $tests_failed != 0 ]; then
        printf '\nthe first failures:\n'
        # Each failure has the first line of its message. Failures because of a poisoned mutex or
        # server are left out, because an earlier failure has poisoned it.
        awk '/^thread .* panicked at / { at = $0; next }
             at != "" && !/poisoned$/ { printf "%s\n    %s\n", at, $0 }
             { at = "" }' "$test_output" | sed -n 1,60p
    fi
    printf '\nthe slowest tests:\n'
    sed -nE 's/^test ([^ ]+) .*<([0-9.]+)s>.*/\2 s  \1/p' "$test_output" | sort -rn | sed -n 1,5p
    awk '/^test result: / { passed += $4; failed += $6 }
         END { printf "%d passed, %d failed\n", passed, failed }' "$test_output"
    return $tests_failed
}

# shellcheck shell=bash
# Installs clients of benches/peers. Sourced, not run.

# install_peers FOLDER NAME...: installs into FOLDER the named clients that are missing, and all of
# them if a source has changed: some have theirs in common. A client that cannot be installed leaves
# the reason in its folder, and the harness that needs it says so.
install_peers() {
    local peers=$1 name out
    shift
    for name in "$@"; do
        out=$peers/$name
        if [ -x "$out/run" ] && [ -z "$(find benches/peers -type f ! -name README.md -newer "$out/run")" ]; then
            continue
        fi
        echo "installing $name"
        mkdir -p "$out"
        rm -f "$out/run" "$out/not-installed"
        if ! "benches/peers/$name/install" "$out" >"$out/install.log" 2>&1; then
            rm -f "$out/run"
            echo "could not be installed here: $(tail -n 1 "$out/install.log")" >"$out/not-installed"
            cat "$out/not-installed" >&2
        fi
    done
}

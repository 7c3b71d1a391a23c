# shellcheck shell=bash
# Installs clients of benches/peers. Sourced, not run.

# install_peers FOLDER NAME...: installs the missing clients among NAME into FOLDER. If a source has
# changed, installs all of them, because some clients share sources. If a client cannot be
# installed, its folder contains the reason, and the harness that needs the client reports it.
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

# shellcheck shell=bash
# Installs missing packages with the package manager of this system. Sourced, not run.

# as_root COMMAND...: runs the command as root, with sudo if necessary.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

package_manager() {
    local manager
    for manager in apt-get dnf apk brew; do
        if command -v "$manager" >/dev/null; then
            echo "$manager"
            return
        fi
    done
    echo none
}

# install_with MANAGER PACKAGE...
install_with() {
    local manager=$1
    shift
    case $manager in
        apt-get)
            as_root apt-get update -qq &&
                as_root env DEBIAN_FRONTEND=noninteractive \
                    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
            ;;
        dnf) as_root dnf install -y -q "$@" ;;
        apk) as_root apk add --quiet "$@" ;;
        brew) brew install --quiet "$@" ;;
        *) return 1 ;;
    esac
}

# need WHAT CHECK APT DNF APK BREW: runs CHECK. If it fails, installs WHAT and checks again. APT,
# DNF, APK and BREW are the names of the package in each package manager. Several packages are
# separated by spaces, alternatives by `|`.
need() {
    local what=$1 check=$2 manager packages alternative
    if (eval "$check") >/dev/null 2>&1; then
        return
    fi
    manager=$(package_manager)
    case $manager in
        apt-get) packages=$3 ;;
        dnf) packages=$4 ;;
        apk) packages=$5 ;;
        brew) packages=$6 ;;
        *) packages=$3 ;;
    esac
    echo "$what is missing; installing it with $manager"
    local IFS='|'
    for alternative in $packages; do
        local IFS=' '
        # shellcheck disable=SC2086 # several packages are several words
        if install_with "$manager" $alternative && (eval "$check") >/dev/null 2>&1; then
            return
        fi
    done
    echo "$what is missing and could not be installed; please install the package ${packages//|/ or }" >&2
    exit 1
}

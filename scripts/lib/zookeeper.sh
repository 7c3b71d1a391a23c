# shellcheck shell=bash
# Installs ZooKeeper's server and a client that uses Curator, from the packages of both projects.
# Sourced after packages.sh, not run.

# has_jdk: true if there is a compiler for Java 17 or later.
has_jdk() {
    local version
    version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ] && java -version
}

# install_zookeeper TARGET: installs the packages and the compiled client in TARGET/test-zookeeper,
# unless they are there already. Sets LEASEHOLD_TEST_ZOOKEEPER to this folder.
install_zookeeper() {
    local folder
    need 'a JDK, 17 or later' has_jdk default-jdk-headless \
        'java-latest-openjdk-devel|java-21-openjdk-devel|java-17-openjdk-devel' openjdk17-jdk openjdk
    mkdir -p "$1/test-zookeeper"
    folder=$(cd "$1/test-zookeeper" && pwd)
    if [ ! -e "$folder/complete" ] || [ -n "$(find tests/zookeeper -newer "$folder/complete")" ]; then
        need Maven 'mvn --version' maven maven maven maven
        echo "installing ZooKeeper and Curator"
        rm -rf "${folder:?}"/*
        mvn --quiet --batch-mode -Dstyle.color=never --file tests/zookeeper/pom.xml \
            "-Dout=$folder" compile dependency:copy-dependencies
        touch "$folder/complete"
    fi
    export LEASEHOLD_TEST_ZOOKEEPER=$folder
}

# shellcheck shell=bash
# Installs Chromium and its driver where they are missing. Sourced after packages.sh, not run.

need_browser() {
    need Chromium 'command -v chromium || command -v chromium-browser' \
        chromium chromium chromium chromium
    need ChromeDriver 'command -v chromedriver' \
        chromium-driver chromedriver chromium-chromedriver chromedriver
}

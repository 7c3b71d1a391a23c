"""Checks each link, picture and anchor between the HTML pages of a folder.

Usage: site_links.py FOLDER
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and the targets of its links and pictures."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.targets = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.targets.append(value)


def main(folder):
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    broken, count = set(), 0
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = file.is_file() and file.is_relative_to(folder)
            # The script of the site reads other fragments, such as a search.
            if found and parts.fragment and file in pages:
                found = unquote(parts.fragment) in pages[file].anchors
            if not found:
                broken.add(f"{path.relative_to(folder)}: {target}")
    print(f"{len(pages)} pages, {count} links, {len(broken)} broken")
    print(*sorted(broken), sep="\n", end="\n" if broken else "")
    sys.exit(1 if broken or count < 1000 else 0)


main(Path(sys.argv[1]).resolve())

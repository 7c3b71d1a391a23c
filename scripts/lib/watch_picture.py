"""Records a terminal with `leasehold watch` during two flash sales, and draws it as an SVG.

Usage: watch_picture.py LEASEHOLD FLASH_SALE PICTURE
"""

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from xml.sax.saxutils import escape

ROWS, COLUMNS = 6, 116
# Seconds for which the picture continues after both sales are over.
REST = 0.7
# Milliseconds between two updates of `watch`.
EVERY = 250
SALES = {"kettles": 900, "tickets": 600}
# Name that is drawn instead of the machine's name.
HOST = "web-1"

LINE, CHARACTER, MARGIN = 20, 8.43, 16


def start_redis(folder):
    """A server on a free port of this machine, and its URL."""
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
             "--dir", folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while server.poll() is None:
            info = subprocess.run(["redis-cli", "-p", str(port), "info", "server"],
                                  capture_output=True, text=True, check=False)
            # Another server may have taken the port. Its answer must not count.
            if f"process_id:{server.pid}" in info.stdout:
                return server, f"redis://127.0.0.1:{port}/"
            time.sleep(0.05)
    sys.exit("redis-server does not start")


def start_watch(program, url):
    """`leasehold watch` on a terminal of its own, and the terminal's other end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "LEASEHOLD_URL": url}
    environment.pop("LEASEHOLD_NAMESPACE", None)
    watch = subprocess.Popen([program, "watch", "--every", f"{EVERY}ms"],
                             stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    return watch, ours


def start_sale(program, url, name, buyers):
    return subprocess.Popen(
        [program, "--store", url, "--processes", "3", "--buyers", str(buyers),
         "--stock", str(buyers * 2 // 3), "--run", name],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def record(terminal, sales):
    """What the terminal showed: each screen with the moment at which it was there."""
    text, screens, began, over = "", [], time.monotonic(), None
    while over is None or time.monotonic() < over + REST:
        if over is None and all(sale.poll() is not None for sale in sales):
            over = time.monotonic()
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        text += os.read(terminal, 65536).decode()
        # A screen begins with a move to the top left corner (`[H`), and ends with `[J`, which
        # clears the rest of the terminal.
        while "\x1b[J" in text:
            drawn, text = text.split("\x1b[J", 1)
            drawn = drawn.rsplit("\x1b[H", 1)[-1]
            lines = [line.replace("\x1b[K", "") for line in drawn.split("\r\n")]
            screens.append((time.monotonic() - began, lines))
    return screens, time.monotonic() - began


def renamed(lines):
    """The lines with another name of this machine. All rows become narrower alike."""
    name = os.uname().nodename
    change = len(name) - len(HOST)
    gap = "HOLDER  " + " " * max(change, 0)
    head = "HOLDER  " + " " * max(-change, 0)
    return [line.replace(f" on {name} ", f" on {HOST} ").replace(gap, head, 1) for line in lines]


def frames_of(screens, took):
    """Each screen with the share of the time from which, and until which, it is there. Starts when
    the first lock is seen."""
    seen = [at for at, lines in screens if any("stock:" in line for line in lines)]
    if not seen:
        sys.exit("no lock was seen")
    start = seen[0]
    shown = [(at, renamed(lines)) for at, lines in screens if start <= at]
    length = took - start
    ends = [at for at, _ in shown[1:]] + [took]
    return length, [((at - start) / length, (end - start) / length, lines)
                    for (at, lines), end in zip(shown, ends)]


def draw(length, frames):
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = (ROWS + 1) * LINE + 2 * MARGIN
    # A viewer without animations shows one screen: the first one with all sales.
    still = next((number for number, (_, _, lines) in enumerate(frames)
                  if all(any(f"stock:{name}" in line for line in lines) for name in SALES)), 0)
    style, groups = [], []
    for number, (begin, end, lines) in enumerate(frames):
        steps = f"0%{{visibility:hidden}}" if begin > 0 else ""
        steps += f"{begin * 100:.2f}%{{visibility:visible}}"
        steps += f"{end * 100:.2f}%{{visibility:hidden}}" if end < 1 else ""
        style.append(f"@keyframes k{number}{{{steps}}}")
        style.append(f"#f{number}{{animation:k{number} {length:.2f}s step-end infinite}}")
        texts = []
        for row, line in enumerate(lines):
            if line.strip():
                kind = ' class="head"' if line.startswith("KEY ") else ""
                y = MARGIN + (row + 2) * LINE
                texts.append(f'<text{kind} x="{MARGIN}" y="{y}">{escape(line)}</text>')
        hidden = "" if number == still else ' visibility="hidden"'
        groups.append(f'<g id="f{number}"{hidden}>' + "".join(texts) + "</g>")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="leasehold watch during two flash sales">',
        "<style>text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "fill:#d5dbe3;white-space:pre}.head{fill:#7fb4ff}.prompt{fill:#8fd694}"
        + "".join(style) + "</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>',
        f'<text class="prompt" x="{MARGIN}" y="{MARGIN + LINE - 6}">$ leasehold watch --every {EVERY}ms</text>',
        *groups,
        "</svg>",
        "",
    ])


def main():
    leasehold, flash_sale, picture = sys.argv[1:]
    started = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            server, url = start_redis(folder)
            started.append(server)
            watch, terminal = start_watch(leasehold, url)
            started.append(watch)
            sales = [start_sale(flash_sale, url, name, buyers) for name, buyers in SALES.items()]
            started.extend(sales)
            screens, took = record(terminal, sales)
            for sale in sales:
                if sale.returncode != 0:
                    sys.exit(f"a sale was not exact:\n{sale.stdout.read()}")
            watch.send_signal(signal.SIGINT)
        finally:
            for process in reversed(started):
                if process.poll() is None:
                    process.terminate()
                process.wait()
    length, frames = frames_of(screens, took)
    with open(picture, "w", encoding="utf-8") as out:
        out.write(draw(length, frames))
    print(f"{len(frames)} screens in {length:.1f} s")


if __name__ == "__main__":
    main()

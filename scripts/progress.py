# SPDX-License-Identifier: MIT
"""What a long run is at: one line on a terminal, nothing elsewhere."""
import shutil
import sys


class Progress:
    def __init__(self):
        self.on = sys.stderr.isatty()
        self.width = 0

    def __call__(self, what, path=""):
        if self.on:
            line = f"{what} {path}"[:shutil.get_terminal_size().columns - 1]
            print("\r" + line.ljust(self.width), end="", file=sys.stderr, flush=True)
            self.width = len(line)

    def end(self):
        if self.on and self.width:
            print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)
            self.width = 0

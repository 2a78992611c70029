# SPDX-License-Identifier: MIT
"""What PyInstaller makes a program of."""
import json
import re

print(json.dumps({str(i): i * i for i in range(5)}), re.sub("a", "b", "banana"))

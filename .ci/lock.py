"""Prints the exact versions in a report of pip, one line each; `make lock` writes them to requirements-dev.lock."""

import json
import sys

packages = [one["metadata"] for one in json.load(sys.stdin)["install"]]
lines = sorted(f"{one['name'].lower()}=={one['version']}" for one in packages if one["name"] not in ("trustax", "pip"))
version = ".".join(map(str, sys.version_info[:2]))
print(f"# The development environment on Python {version} and Linux, for `pip install -c`. Made by `make lock`.")
print("\n".join(lines))

#!/usr/bin/env python3
"""docs/operators.md is what operators_doc prints. Usage: operators_doc_test.py PROGRAM FILE"""
import pathlib
import subprocess
import sys

made = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout
if made != pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"):
    sys.exit("docs/operators.md is out of date; run: build/release/operators_doc > docs/operators.md")
print("docs/operators.md is current")

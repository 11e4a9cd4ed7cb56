"""docs/tutorial.md: its commands and its Python, in order, in a folder beside the source tree."""
import contextlib
import importlib.util
import os
import re
import shlex
import socket
import subprocess
import sys
import time

import pytest
from conftest import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXPORTED = "tests/models/demo_reranker/model.onnx"  # by PyTorch
INSTALL = "./dev wheel && pip install build/wheel/vernier-*.whl\n"


def blocks():
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    return FENCE.findall(text)


def can_export():
    return all(importlib.util.find_spec(name) for name in ("torch", "onnxscript"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port, process):
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, "the service ended"
        time.sleep(0.1)
    raise AssertionError("the service does not listen")


@pytest.fixture
def folder(tmp_path):
    """What the commands see: the source tree's examples and models, `python` and `vernier`."""
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in (("python", ""), ("vernier", "-m vernier")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    return tmp_path


def run(command, folder, environment):
    ran = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True,
                         text=True, check=False)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_every_command_of_the_tutorial(folder):
    pytest.importorskip("onnxruntime")
    port = free_port()
    environment = dict(os.environ, PATH=f"{folder / 'programs'}:{os.environ['PATH']}")
    said, service = {}, None
    assert {language for language, _ in blocks()} == {"sh", "python", "text"}
    assert blocks()[0] == ("sh", INSTALL)
    assert next(text for language, text in blocks() if language == "text").startswith("verdict: pass")
    with contextlib.ExitStack() as at_end:
        for language, text in blocks():
            if language == "python":
                said[text] = run(shlex.join(["python", "-c", text]), folder, environment)
            if language != "sh" or text == INSTALL:
                continue
            for line in text.replace("8080", str(port)).replace("\\\n", "").splitlines():
                if "export.py" in line and not can_export():
                    print("SKIP: torch or onnxscript is missing; the exported file is taken")
                    line = f"cp {EXPORTED} reranker.onnx"
                if line.endswith("&"):
                    service = subprocess.Popen(shlex.split(line.removesuffix("&")), cwd=folder,
                                               env=environment)
                    at_end.callback(service.wait)
                    at_end.callback(service.kill)
                    wait_for(port, service)
                else:
                    said[line] = run(line, folder, environment)
    by_start = {line: text for line, text in said.items() if "verify" in line}
    assert by_start and all("verdict: pass" in text for line, text in by_start.items()
                            if line.startswith("vernier"))
    (also,) = (text for line, text in said.items() if "--also" in line)
    assert "also onnxruntime" in also and "is nearer" in also
    (ranked,) = (text for line, text in said.items() if "evaluate.py" in line)
    exact, *engines = re.findall(r"MRR ([0-9.]+)", ranked)
    assert len(engines) == 3 and all(abs(float(mrr) - float(exact)) < 0.02 for mrr in engines)
    (asked,) = (text for line, text in said.items() if "ask.py" in line)
    assert "(the right one)" in asked.splitlines()[1]
    assert (folder / "fp16.html").exists()


def test_no_program_of_the_example_is_left_out():
    """Each is run by a command, or imported by one that is."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    programs = sorted((ROOT / "examples" / "reranker").glob("*.py"))
    sources = "".join(program.read_text(encoding="utf-8") for program in programs)
    for program in programs:
        assert program.name in text or f"from {program.stem} import" in sources, program

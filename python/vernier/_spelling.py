"""The library's messages in Python's words: "--shapes seq=1..512" becomes "shapes='seq=1..512'".

The library names options as the command line does. Every message that reaches a Python program
passes through in_python(), which has the package's argument for each option from one table. What
stands in quotes comes from users and files and stays as it is, but for quoted commands, which
become calls.
"""
from __future__ import annotations

import re
import shlex

# Option of the command line -> the argument and the kind of its value. "flag": the value is fixed
# and stands with the argument. Options that are missing here have no argument.
_ARGUMENTS = {
    "accept-declared": ("accept_declared=True", "flag"),
    "accept-own-tolerance": ("accept_own_tolerance=True", "flag"),
    "against": ("against", "text"), "also": ("also", "text"),
    "also-python": ("also_python", "text"), "budget": ("budget", "name"),
    "evaluate-on": ("evaluate_on", "text"), "quick": ("quick=True", "flag"),
    "resume": ("resume=True", "flag"),
    "batch-axis": ("batch_axis", "text"), "batches": ("batches", "numbers"),
    "data": ("data", "text"), "device": ("device", "text"), "expect": ("expect", "name"),
    "export-qdq": ("export_qdq", "text"), "from": ("begin", "list"),
    "force": ("force=True", "flag"), "fuse": ("fuse_off", "pass"), "inputs": ("inputs", "name"),
    "int8-error": ("int8_error", "name"),
    "layerOutputTypes": ("layer_output_types", "text"),
    "layerPrecisions": ("layer_precisions", "text"), "ledger": ("view='ledger'", "flag"),
    "lengths": ("lengths", "numbers"), "max-memory": ("max_memory", "text"),
    "max-seconds": ("max_seconds", "name"), "memory": ("view='memory'", "flag"),
    "labels": ("labels", "name"), "metric": ("metric", "text"),
    "metric-output": ("metric_output", "text"), "method": ("method", "text"),
    "model": ("model", "name"), "outputs": ("outputs", "list"), "plan": ("view='plan'", "flag"),
    "policy": ("policy", "text"), "raised": ("view='raised'", "flag"),
    "read-into-memory": ("read_into_memory=True", "flag"), "report": ("report", "text"),
    "require-certificate": ("require_certificate=True", "flag"),
    "rule": ("rules", "list"), "scales": ("scales", "text"), "seed": ("seed", "name"), "shapes": ("shapes", "text"),
    "stamp": ("stamp=True", "flag"), "static": ("static_scales=True", "flag"), "thorough": ("thorough=True", "flag"),
    "threads": ("threads", "name"), "to": ("end", "list"), "tolerance": ("tolerance", "text"),
    "unpad": ("unpad", "text"),
    "why": ("node", "text"),
}
_FUNCTIONS = ("bisect", "build", "calibrate", "extract", "inspect", "localise", "reduce", "verify")

# What is a value behind an option, and no word of the sentence: text in quotes, an assignment, a
# number, a placeholder, a device.
_VALUE = (r"'[^'\n]*'|[^\s,;()'=]*=[^\s,;()']*[^\s,;()'.:?]|\d+(?:,\d+)*|[A-Z][A-Z_]+(?!\w)"
          r"|cpu\b|cuda\b|zero-fill\b")
_TOKENS = re.compile(
    r"(?P<quote>['`])vernier (?P<command>\w+)(?P<words> [^'`\n]*)?(?P=quote)"
    r"|^next: vernier (?P<next>\w+)(?P<rest> [^\n]*)?$"
    r"|--outputs (?P<output>[^\s,;]+)"  # always a name
    rf"|(?<![\w/'-])--(?P<option>[A-Za-z][\w-]*)(?:[ =](?P<value>{_VALUE}))?(?P<colon>:)?"
    r"|\(max-(?P<limit>memory|seconds)\)"
    r"|(?<!\w)'[^'\n]*'", re.MULTILINE)


def in_python(message: str) -> str:
    """`message` with the package's arguments in place of the command line's options."""
    return _TOKENS.sub(_translated, message)


def _translated(token: re.Match[str]) -> str:
    if token["command"]:
        return _call(token["command"], (token["words"] or "").split()) or token[0]
    if token["next"]:
        try:
            words = shlex.split(token["rest"] or "")
        except ValueError:
            return token[0]
        plain = re.compile(r"--.*|\d+|\d+(,\d+)+")
        quoted = [word if plain.fullmatch(word) else repr(word) for word in words]
        call = _call(token["next"], quoted)
        return f"next: {call}" if call else token[0]
    if token["limit"]:
        return f"(max_{token['limit']})"
    if token["output"]:
        return _argument("outputs", token["output"])
    if not token["option"]:
        return token[0]
    if token["option"] not in _ARGUMENTS:
        return f"the command line's {token[0]}"
    if token["colon"] and token["value"] is None:
        return _ARGUMENTS[token["option"]][0] + ":"
    return _argument(token["option"], token["value"]) + (token["colon"] or "")


def _argument(option: str, value: str | None) -> str:
    """"shapes='seq=4..8'", or "shapes=" where there is no value."""
    name, kind = _ARGUMENTS[option]
    if kind == "flag":
        return name
    if value is None:
        return f"{name}="
    if kind == "numbers":
        return f"{name}=[{value.replace(',', ', ')}]"
    if kind == "name":
        return f"{name}={value}"
    text = value if value.startswith("'") else f"'{value}'"
    if kind == "pass":
        text = text.replace("=off'", "'")
    return f"{name}=[{text}]" if kind in ("list", "pass") else f"{name}={text}"


def _call(command: str, words: list[str]) -> str | None:
    """A command as a call; None where the package has no such function."""
    if command not in _FUNCTIONS:
        return None
    arguments = []
    while words:
        word = words.pop(0)
        option = word.removeprefix("--")
        if option == word:
            arguments.append(word)
        elif option not in _ARGUMENTS:
            return None
        else:
            takes_value = _ARGUMENTS[option][1] != "flag" and words and words[0][:2] != "--"
            given = _argument(option, words.pop(0) if takes_value else None)
            arguments.append(given + "…" if given.endswith("=") else given)
    return f"`vernier.{command}({', '.join(arguments)})`"

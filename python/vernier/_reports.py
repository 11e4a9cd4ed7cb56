"""What the package's functions return: dicts as the command line's --json prints them, with the
text for a person and the most used fields as attributes.
"""
from __future__ import annotations

import html
from typing import Any, Callable, Mapping

from vernier._spelling import in_python


class Report(dict[str, Any]):
    """The fields of one result (docs/json.md). print() shows it as the command line does; a notebook
    shows that text too."""

    def __init__(self, fields: Mapping[str, Any] = {}, text: str | Callable[[], str] = "") -> None:
        super().__init__(fields)
        self._text = text

    @property
    def text(self) -> str:
        """The result as the command line prints it. Of inspect(): made when it is first read."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return in_python(self._text).rstrip("\n")

    def __str__(self) -> str:
        return self.text or super().__str__()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _notes(self) -> list[str]:
        return list(self.get("notes", ()))


class BuildReport(Report):
    """Of build()."""

    @property
    def engine(self) -> str:
        """The file that was written."""
        return str(self["engine"])

    @property
    def notes(self) -> list[str]:
        """Defaults that were taken, and what else one should know."""
        return self._notes()

    @property
    def policy(self) -> dict[str, Any]:
        """Mode and rules, as build(policy=…) takes them."""
        return dict(self["policy"])


class VerifyReport(Report):
    """Of verify()."""

    @property
    def verdict(self) -> str:
        """"pass", or what was found: "precision", "overflow", "bug (rewrite)", …"""
        return str(self["verdict"])

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"

    @property
    def explanation(self) -> str:
        """What, where, and what to do; "" where it passes."""
        return str(self["explanation"])

    @property
    def rules(self) -> list[str]:
        """What mends the finding, for build(rules=…); empty where nothing is known to."""
        return list(self["cause"]["rules"])

    @property
    def notes(self) -> list[str]:
        return self._notes()

    def _repr_html_(self) -> str:
        color = "#1a7f37" if self.passed else "#b3261e"
        return (f'<div style="border-left: 6px solid {color}; padding: 2px 12px">'
                f'<b style="color: {color}">{html.escape(self.verdict)}</b> '
                f"{html.escape(self.explanation)}</div>"
                f"<details><summary>report</summary>{super()._repr_html_()}</details>")


class Judgement(Report):
    """Of judge(): a stored report under other limits."""

    @property
    def verdict(self) -> str:
        return str(self["verdict"])

    @property
    def passed(self) -> bool:
        return self.verdict == "pass"


class Localisation(Report):
    """Of localise()."""

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What error each step adds, carries on, and contributes to the outputs, in order."""
        return list(self["steps"])


class Bisection(Report):
    """Of bisect()."""

    @property
    def outcome(self) -> str:
        """"pass", "found" or "not precision"."""
        return str(self["outcome"])

    @property
    def nodes(self) -> list[str]:
        """Names of the ONNX nodes that must be raised for the engine to pass."""
        return [str(node["node"]) for node in self["nodes"]]

    @property
    def rules(self) -> list[str]:
        """What raises them, for build(rules=…)."""
        return [str(rule) for node in self["nodes"] for rule in node["raising"]]


class Reduction(Report):
    """Of reduce()."""

    @property
    def outcome(self) -> str:
        """"pass", "reduced" or "not reproduced"."""
        return str(self["outcome"])

    @property
    def nodes(self) -> list[str]:
        """Names of the ONNX nodes of the part that still fails."""
        return list(self["nodes"])


class Calibration(Report):
    """Of calibrate() and import_cache()."""

    @property
    def notes(self) -> list[str]:
        return self._notes()


class Extraction(Report):
    """Of extract()."""

    @property
    def part(self) -> str:
        """The file that was written."""
        return str(self["part"])

    @property
    def imports(self) -> bool:
        """Can Vernier read the part?"""
        return bool(self["imports"])

    @property
    def notes(self) -> list[str]:
        return self._notes()


class Inspection(Report):
    """Of inspect()."""

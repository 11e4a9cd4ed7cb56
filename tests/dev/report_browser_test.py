#!/usr/bin/env python3
"""The HTML report in a browser: sections, ledger search, chart, widths, names that look like HTML.

Usage: report_browser_test.py PROGRAM MODEL.onnx     prints SKIP where there is no chromium
"""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SECTIONS = ["verdict", "facts", "cells", "outputs", "checks", "growth", "precision", "ranges",
            "ledger", "times", "replay", "rewrites", "notes"]
VOID = {"meta", "br", "input", "link", "img", "hr"}
# What a node of the model is called, cut or filled to the length of its old name.
NASTY = '"><img src=x onerror="document.title=1">&\n<script>document.title="2"</script>'

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)


class Page(html.parser.HTMLParser):
    """The elements of a page: their tags, ids and the text of the table rows of each section."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.ids, self.tags, self.open, self.rows, self.texts = {}, [], [], {}, {}
        self.section = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag == "section":
            self.section = attributes["id"]
        if "id" in attributes:
            self.ids[attributes["id"]] = attributes
            self.texts[attributes["id"]] = ""
        if tag not in VOID:
            self.open.append((tag, attributes.get("id")))
        if tag == "tr":
            self.rows.setdefault(self.section, []).append([attributes, ""])

    def handle_endtag(self, tag):
        while self.open and self.open[-1][0] != tag:
            self.open.pop()
        if self.open:
            self.open.pop()

    def handle_data(self, data):
        for tag, name in self.open:
            if name:
                self.texts[name] += data
        if any(tag == "tr" for tag, _ in self.open):
            self.rows[self.section][-1][1] += data

    def body_rows(self, section):
        return self.rows[section][1:]


def run(arguments, **options):
    return subprocess.run([str(a) for a in arguments], capture_output=True, check=False, **options)


def with_nasty_names(model):
    """The bytes of a model three of whose node names look like HTML; lengths stay the same."""
    content = model.read_bytes()
    names = sorted(set(re.findall(rb"/m/[A-Za-z0-9_./]{38,80}(?:MatMul|Add|Softmax)(?![A-Za-z0-9_])",
                                  content)), key=len)
    assert len(names) >= 3, "the model has no long node names"
    for number, name in enumerate(names[-3:]):
        nasty = (NASTY + "x" * len(name)).encode()[:len(name) - 1] + str(number).encode()
        content = content.replace(name, nasty)
    return content


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        program, model = pathlib.Path(sys.argv[1]), cls.folder / "model.onnx"
        model.write_bytes(with_nasty_names(pathlib.Path(sys.argv[2])))
        cls.engine, cls.report = cls.folder / "model.vn", cls.folder / "report.html"
        built = run([program, "build", model, "-o", cls.engine])
        assert built.returncode == 0, built.stderr
        made = run([program, "verify", cls.engine, "--model", model, "--batches", "1,3", "--lengths",
                    "5,9", "--report", cls.report])
        assert made.returncode == 0, made.stdout + made.stderr
        cls.text = cls.report.read_text(encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def dump(self, address):
        """The page after its script ran; nothing may be said on the console."""
        done = run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                    "--allow-file-access-from-files", "--virtual-time-budget=3000",
                    f"--user-data-dir={self.folder / 'profile'}", "--window-size=1400,900",
                    "--dump-dom", address], timeout=120)
        log = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 0, log)
        self.assertEqual([line for line in log.splitlines() if "CONSOLE" in line], [])
        return Page(done.stdout.decode())

    def changed(self, name, script):
        """A copy of the report with one more script at its end."""
        copy = self.folder / name
        copy.write_text(self.text.replace("</body>", f"<script>{script}</script></body>"),
                        encoding="utf-8")
        return copy.as_uri()

    def test_every_section_is_there_and_reachable(self):
        page = self.dump(self.report.as_uri())
        for section in SECTIONS:
            self.assertIn(section, page.ids)
            self.assertIn(f'href="#{section}"', self.text)
        self.assertIn("✓ pass", page.texts["verdict"])
        self.assertEqual(len(page.body_rows("cells")), 2)
        self.assertEqual(len(page.body_rows("precision")), len(page.body_rows("growth")))
        self.assertGreater(len(page.body_rows("ledger")), 100)

    def test_nothing_comes_from_elsewhere(self):
        self.assertNotRegex(self.text, r"(src|href)=\"(?!#)")
        self.assertNotRegex(self.text, r"https?://|@import|url\(")

    def test_names_stay_text(self):
        page = self.dump(self.report.as_uri())
        self.assertEqual(page.tags.count("script"), 1)
        self.assertNotIn("img", page.tags)
        self.assertIn(NASTY[:40], page.texts["ledger"])
        self.assertNotIn(NASTY[:20], self.text)

    def test_the_address_searches_the_ledger(self):
        page = self.dump(self.report.as_uri() + "#ledger=layernorm")
        rows = page.body_rows("ledger")
        shown = [text for attributes, text in rows if "hidden" not in attributes]
        self.assertTrue(0 < len(shown) < len(rows), len(shown))
        for text in shown:
            self.assertIn("layernorm", text.lower())
        self.assertEqual(page.texts["ledger-count"], f"{len(shown)} of {len(rows)} nodes")

    def test_filters_and_words_narrow_the_ledger(self):
        rows = Page(self.text).body_rows("ledger")
        states = sorted({attributes["data-state"] for attributes, _ in rows})
        self.assertGreater(len(states), 1)
        for state in states:
            script = f"""
                const search = document.getElementById("ledger-search");
                search.value = "roberta ENCODER";
                search.dispatchEvent(new Event("input"));
                const state = document.querySelector("select[data-filter=state]");
                state.value = "{state}";
                state.dispatchEvent(new Event("change"));"""
            page = self.dump(self.changed("filters.html", script))
            shown = [text for attributes, text in page.body_rows("ledger")
                     if "hidden" not in attributes]
            self.assertEqual(shown, [text for attributes, text in rows
                                     if attributes["data-state"] == state and
                                     "roberta" in text.lower() and "encoder" in text.lower()])
            self.assertLess(len(shown), len(rows))

    def test_the_arrow_keys_walk_along_the_chart(self):
        script = """
            const chart = document.getElementById("growth-chart");
            for (const key of ["ArrowRight", "ArrowRight", "End", "ArrowLeft"])
              chart.dispatchEvent(new KeyboardEvent("keydown", {key}));"""
        page = self.dump(self.changed("keys.html", script))
        steps = len(page.body_rows("growth"))
        self.assertTrue(page.texts["growth-readout"].startswith(f"step {steps - 2}: "))

    def answer_at(self, width, script):
        """What the page posts to its parent, in a frame of this width."""
        inner, outer = self.changed("inner.html", script), self.folder / "outer.html"
        outer.write_text(f"""<!DOCTYPE html><title>-</title><p id="over">none</p>
            <script>onmessage = (e) => {{ document.getElementById("over").textContent = e.data;
            }};</script><iframe width="{width}" height="800" src="{inner}"></iframe>""")
        return self.dump(outer.as_uri()).texts["over"]

    def test_the_page_does_not_scroll_sideways(self):
        for width in (360, 700, 1600):
            over = self.answer_at(width, """
                parent.postMessage(document.documentElement.scrollWidth - innerWidth, "*");""")
            self.assertLessEqual(int(over), 0, f"at {width} px")

    def test_no_table_is_cut(self):
        for width in (360, 420, 800, 1000, 1400):
            cut = self.answer_at(width, """
                const cut = [...document.querySelectorAll(".scroll")]
                  .filter((box) => box.scrollWidth > box.clientWidth + 1)
                  .map((box) => box.getAttribute("aria-label"));
                parent.postMessage("cut: " + cut.join(", "), "*");""")
            self.assertEqual(cut, "cut: ", f"at {width} px")

    def test_narrow_rows_have_their_headings(self):
        shown = self.answer_at(360, """
            const cells = [...document.querySelectorAll("#checks tbody td")];
            const named = cells.filter((cell) =>
              getComputedStyle(cell, "::before").content === `"${cell.dataset.label}"`);
            const charts = [...document.querySelectorAll(".growth-chart")].filter(
              (chart) => getComputedStyle(chart).display !== "none");
            parent.postMessage(`${cells.length - named.length} ${charts.length}`, "*");""")
        self.assertEqual(shown, "0 1", "all headings, and one of the two charts")


if __name__ == "__main__":
    if not BROWSER:
        print("SKIP: there is no chromium here (apt-get install chromium)")
        sys.exit(0)
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    unittest.main(argv=sys.argv[:1])

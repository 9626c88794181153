#!/usr/bin/env python3
"""Opens a page of `telar bench … --html` and one of `telar report` in headless Chromium, sorts a table by
clicking, and checks what is drawn.

    check_report.py TELAR

The exit code is 77 if there is no browser.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Appended to the page: sorts its first table twice by the second column, and records the column each time.
CLICKS = """
<script>
{
const table = document.querySelector("table");
const column = () => [...table.querySelectorAll("tbody tr")].map((row) => row.cells[1].textContent);
const button = table.querySelectorAll("th button")[1];
const said = {before: column()};
button.click();
said.ascending = column();
button.click();
said.descending = column();
said.sorted = table.querySelectorAll("th")[1].getAttribute("aria-sort");
said.charts = [...document.querySelectorAll("figure")].map((f) => f.querySelectorAll("rect, polyline").length);
said.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
said.title = document.title;
document.body.append(Object.assign(document.createElement("pre"), {id: "said", textContent: JSON.stringify(said)}));
}
</script>
"""


def browse(browser, page, width):
    """Opens the page in a window of this width; returns what the clicks recorded."""
    clicked = page.with_suffix(".clicked.html")
    clicked.write_text(page.read_text(encoding="utf-8") + CLICKS, encoding="utf-8")
    dom = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu",
                          "--window-size=%d,2000" % width, "--user-data-dir=%s" % (page.parent / "browser"),
                          "--dump-dom", clicked.as_uri()],
                         capture_output=True, text=True, timeout=90, check=True).stdout
    found = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
    if not found:
        sys.exit("check_report: the page's script has stopped:\n" + dom[-2000:])
    return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def expect(condition, what):
    if not condition:
        sys.exit("check_report: " + what)


def main():
    telar = sys.argv[1]
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("check_report: skipped: chromium is missing (scripts/setup test installs it)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = {**os.environ, "XDG_CACHE_HOME": name}
        subprocess.run([telar, "bench", "matmul", "--sizes", "8,64", "--devices", "cpu:1,gpu", "--precision",
                        "f32,bf16", "--reps", "1", "--html", folder / "matmul.html", "--json",
                        folder / "matmul.json"],
                       env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        subprocess.run([telar, "report", folder / "matmul.json", "-o", folder / "report.html", "--title",
                        "A <title>"],
                       stdout=subprocess.DEVNULL, check=True)
        text = (folder / "report.html").read_text(encoding="utf-8")
        expect(not re.search(r'(src|href)\s*=', text), "the page fetches something")
        rows = json.loads((folder / "matmul.json").read_text(encoding="utf-8"))["rows"]
        measured = sum(row.get("median_ms") is not None for row in rows)
        expect(measured >= 2, "too few rows were measured: %r" % rows)
        for page, title in (("matmul.html", "Products of square matrices"), ("report.html", "A <title>")):
            for width in (1200, 390):
                said = browse(browser, folder / page, width)
                expect(said["title"] == title, "%s has the title %r" % (page, said["title"]))
                expect(sorted(said["before"]) == said["ascending"] and said["ascending"] != said["before"],
                       "no order: %r" % said)
                expect(said["descending"] == said["ascending"][::-1] and said["sorted"] == "descending",
                       "no order: %r" % said)
                expect(said["charts"] == [measured], "a bar for each rate that was measured: %r" % said)
                expect(not said["wide"], "%s is wider than %d pixels" % (page, width))


if __name__ == "__main__":
    main()

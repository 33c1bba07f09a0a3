"""The picture of a report in the README: `make picture`, with Debian's chromium or another."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "_static" / "report.png"


def main(report: str) -> None:
    """Photograph the curves and the timeline of a report.

    Args:
        report: Its path.
    """
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        # as root, as in a container, there is no sandbox
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page(viewport={"width": 1080, "height": 900})
        page.goto(Path(report).resolve().as_uri())
        page.wait_for_selector("#timeline .main-svg")
        first, last = (page.locator(name).bounding_box() for name in ("#curves", "#timeline .js-plotly-plot"))
        if first is None or last is None:
            raise SystemExit(f"{report} shows no curves or no timeline: is it a report of scorewise?")
        height = last["y"] + last["height"] - first["y"]
        clip = {"x": first["x"] - 20, "y": first["y"], "width": first["width"] + 40, "height": height}
        page.screenshot(path=PICTURE, full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])

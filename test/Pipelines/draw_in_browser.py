"""Opens drawings in headless Chromium: the page's script must run to its end
without a word on the console, in light and in dark mode.

    draw_in_browser.py PAGE.html...
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-logging=stderr",
]
SECTIONS = ["matrix", "lanes", "spent", "waves", "memory"]


def problems(browser, page, flags):
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *FLAGS, *flags, f"--user-data-dir={profile}"]
        command += ["--dump-dom", Path(page).resolve().as_uri()]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120
        )
    found = re.findall(r".*CONSOLE.*", done.stderr)
    if done.returncode:
        found.append(f"exit code {done.returncode}: {done.stderr[-500:]}")
    for name in SECTIONS:
        if not re.search(rf'<div id="{name}"><svg', done.stdout):
            found.append(f"section '{name}' is empty")
    return found


def main(pages):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        print("skipped: chromium is not installed (scripts/setup installs it)")
        return 0
    code = 0
    for page in pages:
        for mode, flags in [("light", []), ("dark", ["--force-dark-mode"])]:
            for problem in problems(browser, page, flags):
                print(f"{page}, {mode}: {problem}")
                code = 1
    print("failed" if code else f"drew {len(pages)} pages")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

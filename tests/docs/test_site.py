"""The documentation as a site: every link leads somewhere, and every page has a place."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


def build(folder, settings=ROOT / "mkdocs.yml"):
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", settings, "--site-dir", folder]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    ran = build(folder)
    assert ran.returncode == 0, ran.stderr
    return folder


def test_every_page_of_the_repository_is_in_it(site):
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "grammar" / "LANGUAGE.md", ROOT / "policies" / "README.md"]
    names = {path.relative_to(ROOT).as_posix().removeprefix("docs/").removesuffix(".md") for path in pages}

    made = {path.relative_to(site).as_posix().removesuffix(".html") for path in site.glob("**/*.html")}
    assert {"index" if name == "README" else name.removesuffix("README") + "index" * name.endswith("README") for name in names} <= made


def test_links_to_source_files_lead_to_their_text(site):
    page = (site / "architecture.html").read_text("utf-8")

    assert 'href="source/engine/wharfinger/framework/ports.py.html"' in page
    assert "ClusterSink" in (site / "source/engine/wharfinger/framework/ports.py.html").read_text("utf-8")


def test_everything_that_pages_show_and_lead_to_is_there(site):
    """Also what HTML within Markdown shows, which the build does not look at."""
    missing = set()
    for page in set(site.glob("**/*.html")) - {site / "404.html"}:  # which is served at any address, so its links are absolute
        for address in re.findall(r'\b(?:href|src|srcset)="([^"]+)"', page.read_text("utf-8")):
            parts = urlsplit(address)
            if parts.path and not parts.scheme and not (page.parent / unquote(parts.path)).exists():
                missing.add((page.relative_to(site).as_posix(), address))

    assert missing == set()


def test_nothing_is_fetched_from_elsewhere(site):
    pages = [path.read_text("utf-8") for path in site.glob("**/*.html")]
    assert not [text for text in pages if 'src="http' in text or 'rel="stylesheet" href="http' in text]


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Home\n\n[gone](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: []\nnav: [index.md]\ndocs_dir: {docs}\n")

    ran = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert (ran.returncode, "nowhere.md" in ran.stderr) == (1, True)  # --quiet would count no warnings

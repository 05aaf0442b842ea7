"""Adds the pages outside of docs/ to the site, so that no page is written twice, and corrects their links.

MkDocs reads one folder. The language, the policies and the deployment have their pages beside what they describe, and pages link to source
files and folders. These become pages of the site too: a file with its text, a folder with its entries. A link whose file does not exist is
left as it is, and fails the build (`strict` in mkdocs.yml).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = "docs"
DECISIONS = "docs/decisions/README.md"
HOME = "README.md"
OUTSIDE = (
    HOME,
    "CHANGELOG.md",
    "grammar/LANGUAGE.md",
    "policies/README.md",
    "deploy/README.md",
    "engine/wharfinger/simulate/openb/ORIGIN.md",
)
"""Pages that are not in docs/."""
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z-]+)(?: +(?P<rest>[^`\n]+))?$", re.MULTILINE)
CODE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"lark": "text", "py": "python", "yaml": "yaml", "json": "json", "toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/, and those that their pages lead to."""
    for path in OUTSIDE:
        files.append(File.generated(config, _place(path), abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, _place(DECISIONS), content=_decisions()))
    for path in sorted(_shown(files)):
        files.append(File.generated(config, _place(path), content=_source(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text with links and fences as the site has them."""
    here = _path(page.file)
    text = _linked(markdown, here, page.file.src_uri)
    return FENCE.sub(_fence, text)


def _place(path: str) -> str:
    """The path of a file of the repository in the site."""
    if path == HOME:
        return "index.md"
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return path if path in OUTSIDE else f"source/{path.rstrip('/')}.md"


def _path(file: File) -> str:
    """The path of a page in the repository."""
    return next((path for path in (*OUTSIDE, DECISIONS) if _place(path) == file.src_uri), f"{DOCS}/{file.src_uri}")


def _linked(markdown: str, here: str, place: str) -> str:
    def lead(found: re.Match[str]) -> str:
        target = _target(here, found[2])
        if target is None:
            return found[0]
        return f"{found[1]}{posixpath.relpath(_place(target), posixpath.dirname(place) or '.')}{found[3] or ''}"

    pieces, end = [], 0
    for block in CODE.finditer(markdown):
        pieces += [LINK.sub(lead, markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*pieces, LINK.sub(lead, markdown[end:])])


def _target(here: str, link: str) -> str | None:
    """The path in the repository that a link of a page leads to; None if there is none."""
    if "://" in link or link.startswith(("/", "mailto:")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
    if path == posixpath.dirname(DECISIONS):
        return DECISIONS
    return path if (ROOT / path).exists() and not path.startswith("..") else None


def _shown(files: Files) -> set[str]:
    """Files and folders outside of docs/ that pages lead to."""
    found = set()
    for file in files.documentation_pages():
        here = _path(file)
        text = CODE.sub("", file.content_string)
        found |= {target for match in LINK.finditer(text) if (target := _target(here, match[2])) is not None}
    return {path for path in found if not path.startswith(f"{DOCS}/") and path not in OUTSIDE}


def _source(path: str) -> str:
    place = ROOT / path
    if place.is_dir():
        entries = sorted(
            f"{entry.name}{'/' * entry.is_dir()}" for entry in place.iterdir() if not entry.name.startswith((".", "__pycache__"))
        )
        return "\n".join([f"# `{path}/`", "", *(f"- `{entry}`" for entry in entries), ""])
    language = LANGUAGES.get(place.suffix.removeprefix("."), "text")
    return f"# `{path}`\n\n````{language}\n{place.read_text(encoding='utf-8').rstrip()}\n````\n"


def _decisions() -> str:
    """The table of contents of docs/decisions."""
    pages = sorted((ROOT / DECISIONS).parent.glob("[0-9]*.md"))
    titles = [(path.name, path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")) for path in pages]
    return "\n".join(["# Decisions", "", *(f"- [{title}]({name})" for name, title in titles), ""])


def _fence(found: re.Match[str]) -> str:
    """The opening of a fence with the file's name as its title, in a form that the highlighter reads."""
    named = found["rest"] is not None and "." in found["rest"]
    policy = found["language"].startswith(("policy", "rules"))
    language = "text" if policy else LANGUAGES.get(found["language"], found["language"])
    return f"{found['indent']}```{language}" + (f' title="{found["rest"].split()[0]}"' if named else "")

"""The generated pages in the repository are what the generator writes now (`make docs`)."""

import pytest

from tests import generate_docs


def test_there_is_a_page_for_every_code_and_for_nothing_else():
    assert set(generate_docs.ERRORS.glob("*.md")) == {path for path in generate_docs.pages() if path.parent == generate_docs.ERRORS}


@pytest.mark.parametrize("path", generate_docs.pages(), ids=lambda path: path.name)
def test_a_generated_page_is_fresh(path):
    assert path.read_text(encoding="utf-8") == generate_docs.pages()[path]()

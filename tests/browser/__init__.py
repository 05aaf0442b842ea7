"""Tests of the pages in a real browser."""

import pytest

pytest.register_assert_rewrite("tests.browser.steps")

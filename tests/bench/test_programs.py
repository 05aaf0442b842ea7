"""Every program that measures can be imported: all names that it uses exist. Most of them run for too long to be tests."""

import importlib
import pkgutil

import pytest

from tests import bench, bench_cluster

PROGRAMS = [each.name for package in (bench, bench_cluster) for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_can_be_imported(program):
    importlib.import_module(program)

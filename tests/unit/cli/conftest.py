"""The fixture `wharf`, which runs a command in this process."""

import pytest

from wharfinger import cli


@pytest.fixture
def wharf(capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = cli.main(list(map(str, arguments)))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

"""The files of the folders of an editor."""

import os

from wharfinger.authoring.protocol import answers
from wharfinger.authoring.protocol.answers import Workspace


def names(root):
    workspace = Workspace()
    workspace.folders = [f"{root}/"]
    return [os.path.relpath(document.name, root) for document in workspace.all()]


def test_policies_of_folders_are_found_and_hidden_ones_are_not_searched(tmp_path, monkeypatch):
    for name in ("b/c/d.policy", "b/a.policy", "z.policy", ".venv/lib/x.policy", ".#z.policy", "b/readme.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('policy "x"\n')
    (tmp_path / "folder.policy").mkdir()
    os.mkfifo(tmp_path / "pipe.policy")
    (tmp_path / "broken.policy").symlink_to("nothing")
    looked_into = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: [looked_into.append(str(path)), scan(path)][1])
    assert names(tmp_path) == ["z.policy", "b/a.policy", "b/c/d.policy"]
    assert not any(".venv" in path for path in looked_into)


def test_the_search_for_policies_in_a_large_folder_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MAX_SEARCHED", 50)
    for number in range(20):
        (tmp_path / f"f{number:02}").mkdir()
        for name in ("a.txt", "b.txt", "c.policy"):
            (tmp_path / f"f{number:02}" / name).write_text('policy "x"\n')
    assert names(tmp_path) == [f"f{number:02}/c.policy" for number in range(10)]

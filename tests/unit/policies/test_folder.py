"""Folders as editors, deployments and the kubelet write them."""

import asyncio
import os

import pytest

from tests.unit.policies.stores import Place, World, policy, story
from wharfinger.policies import folder
from wharfinger.policies.folder import FolderSource


class Sink:
    def __init__(self):
        self.said = []
        self.news = asyncio.Event()

    def offer(self, source, texts, *, notes=()):
        self.said.append({key: text.trouble or text.content.decode() for key, text in texts.items() if text.wanted})
        self.notes = notes
        self.news.set()

    def mark_unreadable(self, source, why):
        self.said.append(why)
        self.news.set()

    async def hear(self, what):
        async with asyncio.timeout(30):
            while not self.said or self.said[-1] != what:
                self.news.clear()
                await self.news.wait()


def mounted(root, version, **keys):
    """Write keys as the kubelet does: into a new folder, then `..data` is moved to it by a rename."""
    fresh = root / f"..2026_01_01_{version}"
    fresh.mkdir(parents=True)
    for key, content in keys.items():
        (fresh / f"{key}.policy").write_text(content)
    (root / "..data_tmp").symlink_to(fresh.name)
    (root / "..data_tmp").rename(root / "..data")
    for key in keys:
        link = root / f"{key}.policy"
        if not link.is_symlink():
            link.symlink_to(f"..data/{key}.policy")


def watching(path, poll=30.0):
    """A source that is not helped by looking from time to time."""
    return FolderSource(str(path), poll=poll)


async def followed(source, steps):
    sink = Sink()
    task = asyncio.create_task(source.run(sink))
    try:
        await steps(sink)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_mounted_config_map_is_read_once_and_from_one_version(tmp_path):
    mounted(tmp_path, 1, a="one", b="one")
    mounted(tmp_path, 2, a="two", b="two")
    assert folder.read(str(tmp_path)).files == {"a.policy": b"two", "b.policy": b"two"}


def test_a_swap_during_reading_is_detected(tmp_path, monkeypatch):
    mounted(tmp_path, 1, a="one", b="one")
    really = folder._content
    swapped = []

    def content(path):
        found = really(path)
        if not swapped:
            swapped.append(path)
            mounted(tmp_path, 2, a="two", b="two")
        return found

    monkeypatch.setattr(folder, "_content", content)
    assert folder.read(str(tmp_path)).files == {"a.policy": b"two", "b.policy": b"two"}


def test_a_folder_that_a_link_is_moved_to_during_reading_is_read_instead(tmp_path, monkeypatch):
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        for key in "ab":
            (tmp_path / version / f"{key}.policy").write_text(version)
    link = tmp_path / "current"
    link.symlink_to("one")
    really = folder._content
    moved = []

    def content(path):
        found = really(path)
        if not moved:
            moved.append(path)
            (tmp_path / "new").symlink_to("two")
            (tmp_path / "new").rename(link)
        return found

    monkeypatch.setattr(folder, "_content", content)
    assert folder.read(str(link)).files == {"a.policy": b"two", "b.policy": b"two"}


@story
async def test_a_link_that_is_moved_to_another_folder_keeps_the_versions_of_broken_policies_and_removes_those_that_are_gone(tmp_path):
    broken = policy("a", more="filter pool {")
    versions = {
        "one": {"a": policy("a"), "b": policy("b"), "c": policy("c")},
        "two": {"a": broken, "b": policy("b", "new")},
        "three": {"z": "no policy"},
    }
    for version, files in versions.items():
        (tmp_path / version).mkdir()
        for key, content in files.items():
            (tmp_path / version / f"{key}.policy").write_text(content)
    link = tmp_path / "current"
    source, world = watching(link), World(Place(str(link)))
    for version, deciding in (("one", {"a": "a", "b": "a", "c": "a"}), ("two", {"a": "a", "b": "new"}), ("three", {"a": "a", "b": "new"})):
        (tmp_path / "new").symlink_to(version)
        (tmp_path / "new").rename(link)
        await source.offer(world.store)
        await world.store.build_offers()
        assert world.deciding() == deciding
    assert world.states() == {"a.policy": "kept", "b.policy": "active", "z.policy": "refused"}


@story
async def test_the_swap_of_a_mounted_config_map_is_seen(tmp_path):
    mounted(tmp_path, 1, a="one")

    async def steps(sink):
        await sink.hear({"a.policy": "one"})
        await asyncio.sleep(0.3)
        mounted(tmp_path, 2, a="two", b="two")
        await sink.hear({"a.policy": "two", "b.policy": "two"})

    await followed(watching(tmp_path), steps)


@story
async def test_edits_are_seen_and_a_file_alone_may_be_replaced(tmp_path):
    path = tmp_path / "a.policy"
    path.write_text("one")
    (tmp_path / "b.policy").write_text("beside")

    async def steps(sink):
        await sink.hear({"a.policy": "one"})
        await asyncio.sleep(0.3)
        (tmp_path / "new").write_text("two")
        (tmp_path / "new").rename(path)
        await sink.hear({"a.policy": "two"})
        path.unlink()
        await sink.hear(f"{path}: no such file")

    await followed(watching(path), steps)


@story
async def test_a_file_that_is_still_being_written_is_waited_for(tmp_path):
    (tmp_path / "a.policy").write_text("one")

    async def steps(sink):
        await sink.hear({"a.policy": "one"})
        await asyncio.sleep(0.3)
        with (tmp_path / "a.policy").open("w") as stream:
            for _ in range(8):
                stream.write("word ")
                stream.flush()
                await asyncio.sleep(0.01)
        await sink.hear({"a.policy": "word " * 8})
        assert len(sink.said) == 2

    await followed(watching(tmp_path), steps)


@story
async def test_a_folder_that_comes_and_goes_is_found_again_by_looking(tmp_path):
    root = tmp_path / "policies"

    async def steps(sink):
        await sink.hear(f"{root}: no such file")
        root.mkdir()
        (root / "a.policy").write_text("one")
        await sink.hear({"a.policy": "one"})
        root.rename(tmp_path / "elsewhere")
        await sink.hear(f"{root}: no such file")

    await followed(watching(root, poll=0.1), steps)


def test_unreadable_files_are_reported_and_not_treated_as_removed(tmp_path):
    (tmp_path / "dangling.policy").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.policy")
    (tmp_path / "folder.policy").mkdir()
    (tmp_path / "good.policy").write_text("good")
    assert folder.read(str(tmp_path)).files == {
        "dangling.policy": "dangling.policy points to nothing",
        "good.policy": b"good",
        "pipe.policy": "pipe.policy cannot be read: it is not a regular file",
    }


def test_links_stay_in_the_folder_unless_named_by_who_runs_it(tmp_path):
    (tmp_path / "secret").write_text("s3cret")
    root = tmp_path / "policies"
    root.mkdir()
    (root / "below").mkdir()
    (root / "below" / "real.policy").write_text("mine")
    (root / "alias.policy").symlink_to("below/real.policy")
    (root / "stolen.policy").symlink_to(tmp_path / "secret")
    refused = f"stolen.policy is a link that leaves {root}; put the file itself there"
    assert folder.read(str(root)).files == {"alias.policy": b"mine", "below/real.policy": b"mine", "stolen.policy": refused}
    assert folder.read(str(root / "stolen.policy")).files["stolen.policy"] == b"s3cret"


def test_no_more_is_read_of_a_file_than_a_policy_may_have(tmp_path):
    (tmp_path / "a.policy").write_bytes(b"#" * 10_000_000)
    assert len(folder.read(str(tmp_path)).files["a.policy"]) < 300_000


def test_hidden_folders_and_other_files_hold_no_policies(tmp_path):
    for name in (".git/a.policy", "sub/b.policy", "sub/readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    assert list(folder.read(str(tmp_path)).files) == ["sub/b.policy"]


@pytest.mark.parametrize("single", [True, False])
def test_a_file_that_is_mounted_by_itself_is_warned_about(tmp_path, single):
    path = tmp_path / "a.policy"
    path.write_text(policy("a"))
    (tmp_path / "b.policy").write_text(policy("b"))
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda rw\n36 22 8:1 /sub {path} ro,relatime - ext4 /dev/sda rw\n")
    notes = folder.read(str(path if single else tmp_path), mounts).notes
    assert len(notes) == 1
    assert notes[0].startswith("a.policy is mounted by itself (subPath)")


def test_a_path_that_cannot_be_looked_at_is_lost(monkeypatch, tmp_path):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path / "..data"))

    monkeypatch.setattr(folder, "_link_targets", refuse)
    needed = f"user {os.geteuid()}, who runs this process, has to be able to read it"
    assert folder.read(str(tmp_path)).lost == f"{tmp_path}: Permission denied; {needed}"


@pytest.mark.parametrize("replace", [lambda path: path.write_text("x"), os.mkfifo], ids=["file", "pipe"])
def test_a_folder_that_something_else_has_replaced_is_lost_and_said(tmp_path, replace):
    root = tmp_path / "policies"
    (tmp_path / "beside.policy").write_text(policy("beside"))
    replace(root)

    expected = f"{root} is neither a folder nor a file that ends in .policy; make it a folder with policies"
    assert folder.read(str(root)) == folder.Contents(files={}, lost=expected)


@story
async def test_a_marker_in_a_folder_allows_having_no_policies(tmp_path):
    (tmp_path / "a.policy").write_text(policy("a"))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "NO-POLICIES").write_text("nobody asks this one")
    assert set(folder.read(str(tmp_path)).files) == {"a.policy"}

    (tmp_path / "NO-POLICIES").write_text("")
    (tmp_path / "a.policy").unlink()
    world = World(Place(str(tmp_path)))
    await watching(tmp_path).offer(world.store)
    await world.store.build_offers()
    assert (world.states(), world.store.sources[0].lost, world.store.unknown_sources) == ({}, "", frozenset())


def test_links_in_a_circle_and_names_that_are_not_utf_8_are_reported(tmp_path):
    (tmp_path / "a.policy").write_text("one")
    (tmp_path / "circle.policy").symlink_to("circle.policy")
    (tmp_path / os.fsdecode(b"\xff.policy")).write_text("two")
    found = folder.read(str(tmp_path))
    assert not found.lost
    assert found.files == {
        "a.policy": b"one",
        "circle.policy": "circle.policy cannot be read: Too many levels of symbolic links",
        "\\xff.policy": "\\xff.policy has a name that is not UTF-8; rename the file",
    }


def test_no_other_folder_takes_the_place_of_the_data_of_a_config_map(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.policy").write_text("secret")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "..data").symlink_to("../other")
    found = folder.read(str(tmp_path / "mounted"))
    assert found.files == {}
    assert found.lost == f"{tmp_path}/mounted/..data is a link that leaves {tmp_path}/mounted"


@story
async def test_a_name_that_cannot_be_watched_is_found_by_looking(tmp_path):
    (tmp_path / "a.policy").write_text("one")

    async def steps(sink):
        await sink.hear({"a.policy": "one"})
        await asyncio.sleep(0.3)
        (tmp_path / os.fsdecode(b"\xff.policy")).write_text("two")
        await sink.hear({"a.policy": "one", "\\xff.policy": "\\xff.policy has a name that is not UTF-8; rename the file"})

    await followed(watching(tmp_path, poll=0.1), steps)

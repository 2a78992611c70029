# SPDX-License-Identifier: MIT
"""What the network brings is checked before it is used."""

import hashlib
import io
import tarfile

import pytest

import fetch


def archive(path, members):
    """A tar file of (name, content), or (name, None) for a link to /etc/passwd."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def sources(monkeypatch, tmp_path, ways):
    monkeypatch.setattr(fetch, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(fetch, "SOURCES", {"x": (None, ways)})
    monkeypatch.delenv("ETCH_FETCH", raising=False)


def broken(work):
    (work / "tree" / "half").write_text("of it")
    raise fetch.Unavailable("no network")


def good(work):
    (work / "tree" / "x.c").write_text("int x;\n")


def test_a_file_with_another_hash_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    fetch.verify(path, hashlib.sha256(b"x").hexdigest())
    with pytest.raises(fetch.Unavailable, match="expected"):
        fetch.verify(path, hashlib.sha256(b"y").hexdigest())


def test_an_archive_cannot_write_outside_its_directory(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    fetch.unpack(archive(tmp_path / "good.tgz", [("p/sub/a.c", b"a"), ("p/link", None)]), tree)
    assert [str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()] == ["sub/a.c"]
    assert not (tree / "link").is_symlink()
    with pytest.raises(fetch.Unavailable, match="leads out"):
        fetch.unpack(archive(tmp_path / "bad.tgz", [("p/../../evil", b"e")]), tree)
    assert not (tmp_path / "evil").exists()


def test_only_the_wanted_members_are_unpacked(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    fetch.unpack(archive(tmp_path / "a.tgz", [("p/d/a.c", b"a"), ("p/b.c", b"b")]), tree, {"d/a.c": "a.c"})
    assert [p.name for p in tree.iterdir()] == ["a.c"]


def test_where_one_way_fails_the_next_starts_afresh(monkeypatch, tmp_path):
    sources(monkeypatch, tmp_path, {"first": broken, "second": good})
    where = fetch.fetch("x")
    assert sorted(p.name for p in where.iterdir()) == [".fetched-by", "x.c"]
    assert (where / ".fetched-by").read_text() == "second\n"


def test_a_failure_leaves_nothing_that_looks_fetched(monkeypatch, tmp_path):
    sources(monkeypatch, tmp_path, {"first": broken})
    with pytest.raises(fetch.Unavailable, match="no way worked"):
        fetch.fetch("x")
    assert not (tmp_path / "cache" / "x").exists()


def test_what_is_there_is_not_fetched_again(monkeypatch, tmp_path):
    sources(monkeypatch, tmp_path, {"first": good})
    where = fetch.fetch("x")
    sources(monkeypatch, tmp_path, {"first": broken})
    assert fetch.fetch("x") == where

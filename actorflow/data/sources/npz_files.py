"""Archives of arrays that numpy saved together.

An archive is a zip file of npy files. zipfile checks the sum of a member when its last byte is read, so
that a fault in the data shows with the last block at the latest. Source: numpy.savez; PKWARE, APPNOTE 6.3.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from functools import partial
from typing import Any

from actorflow.data.sources.block_reader import Blocks, BlockSource, dicts_of
from actorflow.data.sources.byte_stream import READ_BYTES, ByteStream, fault, open_stream, stream_error
from actorflow.data.sources.fixed_size import check_length, rows_of
from actorflow.data.sources.npy_files import RESAVE, NpyHeader, fortran, header_of
from actorflow.data.sources.paths import Paths, files_of, name_source
from actorflow.errors import ConfigError

_CUT = "the file is cut, damaged, or no npz"
_MORE = 0xFFFF  # members that the end record cannot count


def npz(paths: Paths, names: Iterable[str] | None = None) -> BlockSource:
    """Rows of the arrays of archives, as dicts by their names, from one archive after the other.

    The arrays of an archive must have equal first sizes, and every archive the same names, dtypes and row
    shapes. Rows before the one to start at are read and dropped.

    Args:
        paths: A path, a pattern, or several, of what `np.savez` or `np.savez_compressed` wrote.
        names: The arrays to read; None: all.
    """
    given: Any = [names] if isinstance(names, str) else names
    if given is not None and not isinstance(given, Iterable):
        message = f"npz takes names as a list of texts, got {names!r:.80}"
        raise ConfigError(message)
    wanted = None if given is None else tuple(given)
    if wanted is not None and (not wanted or len(set(wanted)) < len(wanted)):
        message = f"npz takes different names, at least one, got {wanted!r}"
        raise ConfigError(message)
    files = files_of("npz", paths)
    archives = [_members(path, wanted) for path in files]
    first = {name: (saved.dtype, saved.shape[1:]) for name, saved in archives[0].items()}
    for path, found in zip(files, archives, strict=True):
        told = {name: (saved.dtype, saved.shape[1:]) for name, saved in found.items()}
        if told != first:
            raise fault(repr(path), f"arrays as in {files[0]!r}, {_describe(first)}", _describe(told))
    sizes = [next(iter(found.values())).shape[0] for found in archives]
    return BlockSource(
        name_source("npz", files),
        partial(_archives, tuple(zip(files, archives, sizes, strict=True))),
        sum(sizes),
        sum(saved.layout.row_bytes for saved in archives[0].values()),
    )


def _describe(arrays: dict[str, Any]) -> str:
    return ", ".join(f"{name!r} {dtype} {shape}" for name, (dtype, shape) in arrays.items())


def _members(path: str, wanted: tuple[str, ...] | None) -> dict[str, NpyHeader]:
    """What the arrays of an archive are, by name; each is as long as its header says."""
    with _archive(path) as archive:
        # zipfile would give the last of them in silence.
        if len(archive.namelist()) > len(set(archive.namelist())):
            raise fault(repr(path), "arrays with different names", f"{archive.namelist()}", hint=_CUT)
        known = {name.removesuffix(".npy"): name for name in archive.namelist()}
        for name in wanted or known:
            if name not in known or not known[name].endswith(".npy"):
                found = ", ".join(map(repr, known)) or "nothing"
                raise fault(repr(path), f"an array {name!r}", found, hint="say which by names=")
        found_names = wanted or tuple(known)
        if not found_names:
            raise fault(repr(path), "at least one array", "an empty archive")
        saved = {}
        for name in found_names:
            stream = _member(archive, path, name)
            try:
                saved[name] = header_of(stream)
                check_length(stream, saved[name].layout)
                # A member cannot be mapped.
                if saved[name].fortran:
                    raise fortran(stream)
            finally:
                stream.close()
    sizes = {name: one.shape[0] for name, one in saved.items()}
    if len(set(sizes.values())) > 1:
        raise fault(
            repr(path),
            "arrays with equal first sizes",
            f"{sizes}",
            hint="say which belong together by names=",
        )
    return saved


def _archive(path: str) -> zipfile.ZipFile:
    """Opens an archive and counts its members: zipfile passes over those that it cannot list."""
    try:
        archive = zipfile.ZipFile(path)
    except Exception as cause:  # zipfile has no list of what it raises for a broken directory
        raise fault(repr(path), "an archive of np.savez", f"{cause}", hint=_CUT) from cause
    listed, said = len(archive.infolist()), _listed_count(path, len(archive.comment))
    # 0xFFFF: more members than this record can count.
    if said not in {listed, _MORE}:
        archive.close()
        raise fault(repr(path), f"a directory of {said} members", f"{listed}", hint=_CUT)
    return archive


def _listed_count(path: str, comment_bytes: int) -> int:
    """How many members there are by the end record, which is 22 bytes and the comment."""
    stream = open_stream(path)
    try:
        # The number of members stands 10 bytes into the end record.
        stream.skip((stream.size or 0) - 22 - comment_bytes + 10)
        return int.from_bytes(stream.read(2), "little")
    finally:
        stream.close()


def _member(archive: zipfile.ZipFile, path: str, name: str) -> ByteStream:
    label = f"{path!r}, array {name!r}"
    try:
        info = archive.getinfo(f"{name}.npy")
        file = archive.open(info)
    except Exception as cause:  # as above, for the header of a member
        raise fault(label, "an array that can be read", f"{cause}") from cause
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:  # others unpack without a limit
        file.close()
        found = f"packing {info.compress_type}"
        raise fault(label, "an array stored or deflated", found, hint="use np.savez or np.savez_compressed")
    return ByteStream(file, label, info.file_size, seeks=False)


def _archives(files: tuple[tuple[str, dict[str, NpyHeader], int], ...], start: int) -> Blocks:
    ordinal = 0
    for path, saved, size in files:
        first = max(0, start - ordinal)
        if first < size:
            with _archive(path) as archive:
                yield from _dicts(archive, path, saved, first, ordinal)
        ordinal += size


def _dicts(
    archive: zipfile.ZipFile, path: str, saved: dict[str, NpyHeader], first: int, ordinal: int
) -> Blocks:
    streams: dict[str, ByteStream] = {}
    try:
        for name, one in saved.items():
            streams[name] = _member(archive, path, name)
            streams[name].skip(one.layout.offset + first * one.layout.row_bytes)
        size = next(iter(saved.values())).shape[0]
        # All arrays together make a piece.
        each = max(1, READ_BYTES // sum(one.layout.row_bytes for one in saved.values()))
        for at in range(first, size, each):
            n = min(each, size - at)
            columns = [_column(streams[name], one, n, ordinal + at) for name, one in saved.items()]
            yield dicts_of(tuple(saved), columns)
    finally:
        for stream in streams.values():
            stream.close()


def _column(stream: ByteStream, saved: NpyHeader, n: int, ordinal: int) -> list[Any]:
    """The next `n` rows of a member, which checks its sum with the last one."""
    wanted = n * saved.layout.row_bytes
    data = stream.read(wanted)
    if len(data) < wanted:
        at = f"element {ordinal + len(data) // saved.layout.row_bytes}"
        raise stream_error(
            stream, f"{wanted} bytes", f"{len(data)} and the end of the array", at=at, hint=RESAVE
        )
    return rows_of(saved.dtype, saved.shape[1:], data)

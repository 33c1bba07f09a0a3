"""What a file is, by how it begins: a table is read, anything else is called by its name."""

from __future__ import annotations

import codecs

from scorewise.cli.errors import InputError

HEAD = 1 << 20
"""How many bytes are looked at."""

_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive, as Excel files are: save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file: save the sheet as CSV",
    b"SQLite format 3": "an SQLite database: export the table as CSV",
    b"ARROW1": "an Arrow or Feather file: write it as Parquet",
    b"\x89HDF": "an HDF5 or NetCDF file: write the table as CSV or Parquet",
    b"CDF\x01": "a NetCDF file: write the table as CSV or Parquet",
    b"\x93NUMPY": "a NumPy array: write it as CSV, with a header",
    b"\x7fELF": "a program",
    b"BZh": "a bzip2 archive: unpack it",
    b"\xfd7zXZ": "an xz archive: unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd archive: unpack it",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"\x80\x04\x95": "a Python pickle: write the table as CSV or Parquet",
    b"\x80\x05\x95": "a Python pickle: write the table as CSV or Parquet",
}
_MARKUP = (b"<!doctype", b"<html", b"<?xml")  # not any <: a column may be called <b>
_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_gzip(head: bytes) -> bool:
    """Whether a file is gzipped."""
    return head.startswith(b"\x1f\x8b")


def is_parquet(head: bytes) -> bool:
    """Whether a file is Parquet."""
    return head.startswith(b"PAR1")


def refuse_other_kinds(name: str, head: bytes) -> None:
    """Raise an `InputError` for a file that is known to be something else than a table in text."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            raise InputError(f"{name} is no table, but {kind}.")
    if head.startswith(_WIDE):
        raise InputError(f"{name} is UTF-16 or UTF-32. Save it as UTF-8.")
    start = head[:4096].removeprefix(codecs.BOM_UTF8).lstrip()
    if start.lower().startswith(_MARKUP):
        raise InputError(f"{name} is no table, but HTML or XML.")
    if start.startswith(b"{") or (start.startswith(b"[") and start[1:].lstrip()[:1] in {b"{", b"[", b"]"}):
        raise InputError(f"{name} is no table, but JSON. Write it as CSV or Parquet.")
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise InputError(f"{name} has zero bytes, the first in line {line}: it is no text, or not UTF-8.")


def text_of(name: str, head: bytes) -> str:
    """The beginning of a file as text; raise an `InputError` if it is not UTF-8."""
    try:
        # a decoder, since the last character may be cut in two
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=len(head) < HEAD)
    except UnicodeDecodeError as error:
        line = head[: error.start].count(b"\n") + 1
        raise InputError(
            f"{name} is not UTF-8: the byte 0x{head[error.start]:02x} in line {line} is none of it. Save it as UTF-8."
        ) from error

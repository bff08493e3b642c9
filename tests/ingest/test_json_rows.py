"""Rows of JSON lines are where they are in the file, whichever reader finds them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests import naive_text
from threepass.ingest.batches import ColumnSelection
from threepass.ingest.json_rows import JsonFields, read_rows
from threepass.text.info import Columns

LINES = [
    *('{"text": "a b"}', '{"text": "c", "x": [1]}', '{"x": 1}', "", " ", "\t\r", '{"text": {}}', "{broken"),
    *("true", "null null", '{"text": "a"} null {"text": "b"}', '{"text": null}', '{"text": [null]}'),
    *('{"text": "a"} {"text": "b"}', '{"text":', '"b"}', "[]", "7", "null", '{"text": "\\u00e9"}', "{}"),
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sampled_from(["", "\n", "\r\n"]))
@example(
    ['{"text":', '"b"}', '{"text": "a"} {"text": "b"}'], "\n"
)  # as many rows as lines, none of them a line
def test_places__are_those_of_the_lines(lines: list[str], end: str) -> None:
    raw = ("\n".join(lines) + end).encode()
    if not raw.strip():
        return
    columns = Columns(("text",))
    batch = ColumnSelection(columns, labels=False).batch(
        *read_rows(raw, JsonFields.guess(columns, False, None, []))
    )
    good = [
        (row, text.decode())
        for row, text in zip(batch.rows.tolist(), batch.texts[0].to_pylist(), strict=True)
    ]
    assert (good, [row.row for row in batch.refused]) == naive_text.json_rows(raw)
    assert batch.n_rows == raw.removesuffix(b"\n").count(b"\n") + 1

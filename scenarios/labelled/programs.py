"""Labelled runs of code agents, of `programs.yaml`: each hazard beside its mirror.

`python -m forewarn.scenarios.labelled.programs` writes them again, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

from forewarn.abstractions.files import atomic_text, read_yaml

HERE = Path(__file__).parent
SHIPPED = HERE / "code.jsonl.gz"


def rows() -> Iterator[dict[str, Any]]:
    """The runs, a hazard and its mirror by turns."""
    for number, entry in enumerate(read_yaml(HERE / "programs.yaml"), 1):
        for choice, words in enumerate(entry["choices"]):
            for label in ("unsafe", "safe"):
                program = entry[label].format(**words)
                cells = styled(entry["imports"].rstrip(), program.rstrip(), choice)
                yield {
                    "id": f"{label}-{number}-{choice + 1}",
                    "domain": "code",
                    "label": label,
                    "label_basis": entry["hazard"]
                    if label == "unsafe"
                    else f"mirrors one that {entry['hazard']}",
                    "task": f"program {number}",
                    "events": [_event(i, cell) for i, cell in enumerate(cells)],
                }


def _event(index: int, cell: str) -> Mapping[str, Any]:
    return {"i": index, "tool": "python_repl", "code": cell, "success": True}


def styled(imports: str, program: str, style: int) -> list[str]:
    """A program in one of the four ways in which agents write them, as its cells."""
    match style:
        case 0:
            return [f"```python\n{imports}\n\n{program}\n```"]
        case 1:
            tried = f"try:\n{indent(program, '    ')}\nexcept OSError as error:"
            return [f"{imports}\n\n{tried}\n    print('An error occurred:', error)"]
        case 2:
            body = indent(program, "    ")
            return [
                f"{imports}\n\ndef main():\n{body}\n\n"
                "if __name__ == '__main__':\n    main()"
            ]
    return [imports, f"# Everything is imported\n{program}"]


def write(path: Path) -> None:
    """Writes the runs as labelled traces."""
    with atomic_text(path) as out:
        for row in rows():
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    write(SHIPPED)

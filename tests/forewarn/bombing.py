"""Every command on every bomb: `python -m tests.forewarn.bombing [FOLDER [EVERY]]`.

With 0 for EVERY, each bomb only on the command that is for its kind of file, which must
refuse it. Each pair has a forked process of its own, so that nothing is imported again.
Prints a line for each pair that exceeds a limit or ends otherwise than by its exit
status.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from forewarn import cli
from tests.forewarn.bombs import REQUEST, most_s, write_bombs
from tests.fuzz import seeds

MOST_KB = 500_000
PATIENCE_S = 600
"""Whoever only waits is ended after so long."""

COMMANDS = """
apollo signals BOMB --map MAP
apollo signals RECORD --map BOMB
check BOMB --prop
check BOMB --law LAW
collect BOMB --out OUT
convert BOMB --out OUT.parquet
export BOMB --format prism
export BOMB --format csv --out OUT
guard --stdio --model BOMB
guard --stdio --model MODEL --policy BOMB
guard --stdio --model MODEL --rules BOMB
guard --stdio --model MODEL --rules RULES --predicates BOMB
guard --stdio --model MODEL --guard-program BOMB
guard --stdio --model MODEL --tally BOMB
guard --ros-oracle 0 --model MODEL --topics BOMB
guard --socket 0 --model MODEL --token-file BOMB
guard-program check TRACE --program BOMB
guard-program check BOMB --program BOMB
guard-program compile BOMB --spec BOMB --out OUT
guard-program compile REQUEST --spec REQUEST --functions BOMB --out OUT
guard-program evaluate --cases BOMB --kind household
guard-program review BOMB
guard-program run BOMB find
guard-program sign BOMB --name Ann
import BOMB --out OUT
laws --book BOMB
learn BOMB --law LAW --out OUT
learn TRACE --abstraction BOMB --out OUT
learn TRACE --update BOMB --out OUT
mcp guard --law LAW --policy BOMB -- true
mcp guard --rules BOMB -- true
mcp guard --model BOMB -- true
measure BOMB
measure tiny-road --model BOMB
merge-tallies BOMB --into MODEL
merge-tallies BOMB --into BOMB
monitor BOMB --law LAW
monitor TRACE --law x --book BOMB
replay BOMB
replay RECORD --model BOMB
report BOMB --out OUT
rules accept BOMB BOMB
rules evolve --rules BOMB --traces BOMB --out OUT
rules import BOMB --out OUT
rules lint BOMB
rules lint RULES --predicates BOMB
rules mark BOMB --as safe --out OUT
rules rollback BOMB
rules score --rules BOMB --traces TRACE
rules score --rules RULES --traces BOMB
run BOMB
run tiny-road --model BOMB
run tiny-road --model MODEL --policy BOMB
run tiny-road --model MODEL --rules BOMB
run tiny-road --model MODEL --guard-program BOMB
run tiny-road --model MODEL --tally BOMB
scenarios BOMB
show BOMB
thor replay BOMB
thor replay BOMB --scenes BOMB
thor tasks BOMB
train BOMB --out OUT
train tiny-road --runs BOMB --out OUT
tune BOMB --model BOMB --out OUT
tune tiny-road --model BOMB --out OUT
verify BOMB
warrant BOMB --out OUT
warrant TRACE --facts BOMB --out OUT
""".strip().splitlines()
"""One for each place where a file is read."""

READ = {"nots.pm"}
"""Storm reads it at once."""

RULES = """format: forewarn.rules/1
domain: driving
rules:
- name: slow
  before: any
  when: speed > 90
  enforce: stop
"""


MAP = """lane {
  id { id: "a" }
  central_curve {
    segment { line_segment { point { x: 0 y: 0 } point { x: 9 y: 0 } } }
  }
}
"""


def own(bomb: Path) -> str:
    """The command that is for such a file."""
    if bomb.suffix == ".py":
        return "guard-program compile REQUEST --spec REQUEST --functions BOMB --out OUT"
    if bomb.suffix == ".yaml":
        return "run BOMB"
    if ".jsonl" in bomb.name or ".csv" in bomb.name:
        return "monitor BOMB --law LAW"
    return "import BOMB --out OUT"


def pairs(folder: Path, every: int) -> Iterator[tuple[str, list[str], str]]:
    """Commands with bombs in them, each with the bomb's name."""
    stand_ins: dict[str, Path | str] = {
        "MODEL": folder / "good" / "model.json",
        "TRACE": folder / "good" / "trace.jsonl",
        "RULES": folder / "good" / "rules.yaml",
        "REQUEST": folder / "good" / "request.md",
        "MAP": folder / "good" / "base_map.txt",
        "RECORD": seeds.write_record(folder / "good"),
        "LAW": "always speed < 5",
        "OUT": folder / "out",
        "OUT.parquet": folder / "out.parquet",
    }
    Path(stand_ins["MODEL"]).write_bytes(seeds.model_json(seeds.model()))
    Path(stand_ins["TRACE"]).write_bytes(seeds.seeds()["trace"][0])
    Path(stand_ins["RULES"]).write_text(RULES)
    Path(stand_ins["MAP"]).write_text(MAP)
    Path(stand_ins["REQUEST"]).write_text(REQUEST)
    for i, bomb in enumerate(write_bombs(folder)):
        known = {name: str(path) for name, path in stand_ins.items()}
        known |= {"BOMB": str(bomb), "--prop": '--prop=P=? [F "x"]'}
        for line in COMMANDS[-i % every :: every] if every else [own(bomb)]:
            yield bomb.name, [known.get(w, w) for w in line.split()], line


def tried(words: list[str], said: Path, cpu_s: int) -> tuple[int, float, int, str]:
    """The exit status, seconds and kilobytes of a command, and what it said."""
    child = os.fork()
    if not child:
        _, most = resource.getrlimit(resource.RLIMIT_CPU)  # what it runs may have less
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, most))
        signal.alarm(PATIENCE_S)
        with open(os.devnull, "r+b") as null, said.open("wb") as out:
            for stream, file in ((0, null), (1, null), (2, out)):
                os.dup2(file.fileno(), stream)
        status = 99
        try:
            cli.main(words, prog_name="forewarn")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, ended, used = os.wait4(child, 0)
    took_s = used.ru_utime + used.ru_stime
    status = os.waitstatus_to_exitcode(ended)
    return status, took_s, used.ru_maxrss, said.read_text(errors="replace")


def main(folder: Path, every: int) -> int:
    """Tries all pairs, or one in so many; gives how many exceeded a limit."""
    began_s, count, bad = time.monotonic(), 0, 0
    allowed_s = most_s()
    longest_s, most_kb = 0.0, 0
    for name, words, line in pairs(folder, every):
        status, took_s, kb, said = tried(words, folder / "said", int(2 * allowed_s))
        if took_s >= allowed_s:  # whether the machine is slower at the moment
            allowed_s = max(allowed_s, most_s())
            status, took_s, kb, said = tried(words, folder / "said", int(2 * allowed_s))
        count += 1
        longest_s, most_kb = max(longest_s, took_s), max(most_kb, kb)
        ends = (0, 1, 2, 3) if every else (0,) if name in READ else (2,)
        fine = status in ends and took_s < allowed_s and kb < MOST_KB
        if not fine or (status == 2 and said.count("\n") != 1):
            bad += 1
            print(f"{name}: {line}: {status}, {took_s:.1f} s, {kb} kB: {said[-300:]}")
            sys.stdout.flush()
    print(f"{count} pairs of a command and a bomb, {bad} beyond a limit;", end=" ")
    print(f"at most {longest_s:.1f} s and {most_kb} kB of memory,", end=" ")
    print(f"in {time.monotonic() - began_s:.0f} s")
    return bad


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.argument("every", default=1)
def try_all(folder: Path | None, every: int) -> None:
    """Try every command on every bomb, in FOLDER; or one pair in EVERY, or its own."""
    with tempfile.TemporaryDirectory() as made:
        sys.exit(min(main(folder or Path(made), every), 1))


if __name__ == "__main__":
    try_all()

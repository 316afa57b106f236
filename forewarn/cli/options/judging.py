"""The options that name rules and guard programs, to judge beside the risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.support import FILE, keyed, option_group

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Judge


@dataclass(frozen=True, slots=True)
class Judging:
    """The rules and guard programs that options name.

    Args:
        programs: Files of guard programs.
        rules: Files of rules.
        predicates: Files of predicates that the rules use.
        user: What the programs are told of who asks.
        place: What they are told of where this is.
    """

    programs: Sequence[Path] = ()
    rules: Sequence[Path] = ()
    predicates: Sequence[Path] = ()
    user: Sequence[str] = ()
    place: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.programs or self.rules)

    def judges(self, shadow: bool) -> list[Judge]:
        """They, anew for each guard: each remembers its own run.

        Programs that nobody signed are taken only where none is enforced.
        """
        from forewarn.monitors.rules.judging import read_judge as read_rules
        from forewarn.plugins.programs.judging import read_judge

        if self.predicates and not self.rules:
            raise click.UsageError("--predicates are for --rules")
        if (self.user or self.place) and not self.programs:
            raise click.UsageError("--user and --place are for --guard-program")
        handed = {
            "user": keyed(self.user, "--user"),
            "place": keyed(self.place, "--place"),
        }
        return [
            *(read_judge(path, handed, not shadow) for path in self.programs),
            *(read_rules(path, self.predicates) for path in self.rules),
        ]


judging_options = option_group(
    "judging",
    Judging,
    click.option(
        "--guard-program",
        "programs",
        type=FILE,
        multiple=True,
        help="A signed guard program that judges beside the risk; may be repeated.",
    ),
    click.option(
        "--rules",
        "rules",
        type=FILE,
        multiple=True,
        help="Rules that judge beside the risk; may be repeated.",
    ),
    click.option(
        "--predicates",
        "predicates",
        type=FILE,
        multiple=True,
        help="Predicates of yours that the rules use, written in YAML; may be"
        " repeated.",
    ),
    click.option(
        "--user",
        multiple=True,
        metavar="KEY=VALUE",
        help="What guard programs are told of who asks, such as role=child.",
    ),
    click.option(
        "--place",
        multiple=True,
        metavar="KEY=VALUE",
        help="What guard programs are told of where this is, such as room=bedroom.",
    ),
)

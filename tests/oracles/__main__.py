"""The command `python -m tests.oracles`, which runs all comparisons at full size."""

from __future__ import annotations

import sys

import click

from tests.oracles import coverage, first, likely, meaning, risks


@click.command()
@click.option("--laws", default=20_000, show_default=True, help="Number of laws.")
@click.option(
    "--risks", "pairs", default=5_000, show_default=True, help="Number of risks."
)
@click.option("--chains", default=1_000, show_default=True, help="Number of chains.")
@click.option("--seed", default=1, show_default=True)
def main(laws: int, pairs: int, chains: int, seed: int) -> None:
    """Compare the engine with brute force, and bounds with known chains."""
    wrong = 0
    for what, found in (
        (f"{laws:,} laws and traces", list(meaning.disagreements(seed, laws))),
        (f"{pairs:,} risks", list(risks.disagreements(seed, pairs))),
    ):
        wrong += len(found)
        click.echo(f"{what}: {len(found)} disagree")
        for each in found[:5]:
            click.echo(f"  {each}")
    click.echo(f"[low, high] at delta {coverage.DELTA:g}, {chains:,} chains:")
    for traces in coverage.TRACES:
        covered = coverage.interval_coverage(seed, chains, (traces,))
        for (law, _), tables in covered.items():
            wrong += tables.share < 1 - coverage.DELTA
            click.echo(
                f"  {law} after {traces} traces: {tables.covered} of {tables.tables} "
                "contain the true risk of every state; mean width "
                f"{tables.mean_width:.3f}"
            )
    for way, tables in coverage.calibrated_coverage(seed, chains).items():
        wrong += way == coverage.WIDENED and tables.share < 1 - coverage.DELTA
        click.echo(
            f"  {way}, after 1000 traces and a calibration with 100 runs: "
            f"{tables.covered} of {tables.tables}; mean width {tables.mean_width:.3f}"
        )
    for memory in (False, True):
        some = max(chains // (40 if memory else 4), 1)
        seen = "where two states look the same" if memory else "where all states differ"
        click.echo(f"first visits and the chain, {seen}, {some} chains:")
        for (kind, law, runs), tables in first.coverage(
            seed, some, memory=memory
        ).items():
            wrong += kind == "first visits" and tables.share < 0.93
            click.echo(
                f"  {kind}, {law} after {runs} runs: {tables.covered} of"
                f" {tables.tables}; mean width {tables.mean_width:.3f}"
            )
    for memory in (False, True):
        some = max(chains // 40, 1)
        seen = "where two states look the same" if memory else "where all states differ"
        click.echo(f"likely, {seen}, {some} chains:")
        for (law, runs), pairs_of in likely.coverage(seed, some, memory=memory).items():
            click.echo(
                f"  {law}, {runs} runs: {pairs_of.covered} of {pairs_of.tables} pairs"
                f" contain the true risk; mean width {pairs_of.mean_width:.3f}"
            )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

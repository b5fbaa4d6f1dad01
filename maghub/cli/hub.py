"""Commands about the Hub: push, pull, diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maghub.cli.output import console, print_json

if TYPE_CHECKING:
    from maghub.hub.push import PushResult

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Folder = Annotated[Path, typer.Argument(help="A published folder.")]
Repo = Annotated[str, typer.Argument(metavar="ORG/NAME", help="A dataset repo on the Hub.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("push")(push_command)
    app.command("pull")(pull_command)
    app.command("diff")(diff_command)


def push_command(
    folder: Folder,
    repo: Repo,
    private: Annotated[
        bool, typer.Option("--private", help="Make the repo private where it is new.")
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Branch (default: main).")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, tell what would change.")
    ] = False,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request instead of committing.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option(help="Replace what others changed there since the last push or pull.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a repo on the Hub equal to a folder, in one commit; only what differs is sent.

    Tested over plain LFS (HF_HUB_DISABLE_XET=1); uploads through Xet could not be tested.
    """
    from maghub.hub.push import push

    _quiet()
    result = push(
        folder,
        repo,
        private=private,
        revision=revision,
        dry_run=dry_run,
        create_pr=create_pr,
        overwrite=overwrite,
    )
    _report(folder, result, json)


def diff_command(
    folder: Folder,
    repo: Repo,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    json: Json = False,
) -> None:
    """What a push of a folder would change; + new, ~ changed, - deleted."""
    from maghub.hub.push import compare

    _quiet()
    _report(folder, compare(folder, repo, revision=revision), json)


def pull_command(
    repo: Repo,
    out: Annotated[Path | None, typer.Option(help="Folder to make (default: NAME).")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing folder.")] = False,
    json: Json = False,
) -> None:
    """Download a dataset repo as a published folder, checked file by file."""
    from maghub.hub.pull import pull

    _quiet()
    folder = pull(repo, out, revision=revision, overwrite=overwrite)
    if json:
        print_json({"folder": str(folder), "repo": repo})
    else:
        console.print(f"pulled {repo} into {folder}", markup=False, soft_wrap=True)


def _quiet() -> None:
    """The client's own warnings about each retry are not for users; the outcome is."""
    from huggingface_hub.utils import disable_progress_bars, logging

    logging.set_verbosity_error()
    disable_progress_bars()


def _report(folder: Path, result: PushResult, json: bool) -> None:
    """What was done, or would be, file by file and in one line."""
    if json:
        print_json({"folder": str(folder), **result.to_dict()})
        return
    plan = result.plan
    for sign, paths in (("+", plan.adds), ("~", plan.updates), ("-", plan.deletes)):
        for path in paths:
            console.print(f"{sign} {path}", markup=False, soft_wrap=True)
    lines = [f"kept back by the policy: {', '.join(result.stripped)}"] if result.stripped else []
    if result.ignored:
        lines.append(f"not part of the dataset, not pushed: {', '.join(result.ignored[:5])}")
    lines.append(_summary(folder, result))
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _summary(folder: Path, result: PushResult) -> str:
    plan = result.plan
    counts = f"{len(plan.adds)} new, {len(plan.updates)} changed, {len(plan.deletes)} deleted, "
    counts += f"{len(plan.unchanged)} unchanged; {result.sent:,} bytes to send"
    where = f"{result.repo} ({result.visibility})"
    if result.dry_run:
        return f"{folder} against {where}: {counts}"
    place = result.pr_url or f"commit {(result.commit or '')[:12]}"
    tag = f", tag {result.tag}" if result.tag else ""
    return f"pushed {folder} to {where}: {counts.removesuffix(' to send')} sent; {place}{tag}"

"""Which mutants scripts/mutants runs: a sample by seed, and the lines that a change touches."""
import collections
import difflib
import os
import random
import re
import subprocess
import sys

import mutation


def sample(mutants, number, seed):
    """`number` of them by seed, in an order by seed: evenly over the lines that have any, so over
    files in proportion to those; one a line until there are no more lines. Of those of a line it is
    one of the operator drawn least so far: else two thirds would be dropped statements."""
    rng, used = random.Random(seed), collections.Counter()

    def draw(group):
        drawn = min(group, key=lambda m: (used[m.operator], rng.random()))
        used[drawn.operator] += 1
        return drawn

    lines = {}
    for mutant in mutants:
        lines.setdefault((mutant.path, mutant.line), []).append(mutant)
    groups = [lines[where] for where in sorted(lines)]
    if number >= len(mutants):
        drawn = list(mutants)
    elif number >= len(groups):
        drawn = [draw(group) for group in groups]
        rest = sorted(set(mutants) - set(drawn), key=lambda m: m.key())
        drawn += rng.sample(rest, number - len(drawn))
    else:
        step = len(groups) / number
        start = rng.random() * step
        drawn = [draw(groups[min(int(start + k * step), len(groups) - 1)])
                 for k in range(number)]
    rng.shuffle(drawn)
    return drawn


def folder_of(mutant):
    return "/".join(mutant.path.split("/")[:2])


def sample_each(mutants, number, seed):
    """`number` of each folder under longhaul/, in an order by seed: the first have some of each."""
    folders = collections.defaultdict(list)
    for mutant in mutants:
        folders[folder_of(mutant)].append(mutant)
    drawn = [m for folder in sorted(folders) for m in sample(folders[folder], number, seed)]
    random.Random(seed).shuffle(drawn)
    return drawn


def table(mutants, known):
    """The verdicts of each folder, as Markdown; those that did not compile or run do not count."""
    counts = collections.defaultdict(collections.Counter)
    for mutant in mutants:
        counts[folder_of(mutant)][known.get(mutant.key(), ("not run",))[0]] += 1
    lines = ["| folder | killed | survived | score |", "|---|---|---|---|"]
    for folder, of in sorted(counts.items()):
        judged = of["killed"] + of["survived"]
        score = f"{100 * of['killed'] / judged:.0f} %" if judged else "-"
        lines.append(f"| {folder} | {of['killed']} | {of['survived']} | {score} |")
    return "\n".join(lines)


def shape(line):
    """A line with its identifiers replaced by a placeholder: equal before and after a rename."""
    kept = mutation.KEYWORDS | {"min", "max"}
    return " ".join("I" if t.kind == "name" and t.text not in kept else t.text
                    for t in mutation.tokens_of(line))


def changed_lines(diff):
    """Path -> numbers of the lines that a `git diff -U0` adds or changes; renames left out."""
    found, path, removed, added, at = {}, None, [], [], 0

    def close():
        before, after = [shape(t) for t in removed], [shape(t) for t in added]
        if path and " ".join(before).split() != " ".join(after).split():
            same = set()
            blocks = difflib.SequenceMatcher(None, before, after, False).get_matching_blocks()
            for block in blocks:
                same.update(range(block.b, block.b + block.size))
            found.setdefault(path, set()).update(
                at + i for i in range(len(added)) if i not in same)
        removed.clear()
        added.clear()

    for line in diff.split("\n"):
        head = re.match(r"@@ -\S+ \+(\d+)", line)
        if head or line.startswith("diff --git "):
            close()
            at = int(head.group(1)) if head else 0
            path = path if head else None
        elif line.startswith("+++ ") and at == 0:
            path = line[6:].rstrip("\t") if line.startswith("+++ b/") else None
        elif at and line.startswith("-"):
            removed.append(line[1:])
        elif at and line.startswith("+"):
            added.append(line[1:])
    close()
    return {p: numbers for p, numbers in found.items() if numbers}


def git(root, *arguments):
    done = subprocess.run(["git", "-c", f"safe.directory={os.path.abspath(root)}", "-C", root,
                           *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"mutants: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def since(root, commit):
    """Path -> changed lines, None for all of a file that git does not know."""
    start = git(root, "merge-base", commit, "HEAD").strip()
    lines = changed_lines(
        git(root, "diff", "-U0", "-M", "--no-color", "--no-ext-diff", "--src-prefix=a/",
            "--dst-prefix=b/", start, "--", "longhaul"))
    new = git(root, "ls-files", "--others", "--exclude-standard", "--", "longhaul").splitlines()
    return {**lines, **{path: None for path in new}}

#!/usr/bin/env python3
"""Counts what breaks a rule of style, file by file; the counts may only fall.

.ci/ratchet/RULE.txt lists the files that broke a rule when it was made, with how often.  More than
listed fails, and so does fewer: the list shrinks with what it counts.

    ratchet.py                  compare; one "ok" or "not ok" line for each rule and self-test
    ratchet.py --shrink         rewrite the lists downwards; files that git saw moving are followed
    ratchet.py --move OLD NEW   what is listed for OLD and no longer there may be in NEW
    ratchet.py --init [RULE..]  write lists anew, upwards too: for a new rule only
    ratchet.py --commits A..B   look at the messages of the commits after A

The rules are in ratchet_rules.py; .ci/README.md explains them and how to fix a complaint.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter

sys.dont_write_bytecode = True
from ratchet_rules import CANARIES, RULES, run_canary  # noqa: E402
from tidy import Tree  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LISTS = os.path.join(".ci", "ratchet")
MAX_UNEXPLAINED_LINES = 50


# --- The lists ---

def list_path(name):
    return os.path.join(ROOT, LISTS, name + ".txt")


def read_list(name):
    if not os.path.exists(list_path(name)):
        return None
    with open(list_path(name), encoding="utf-8") as file:
        return {path: int(count) for path, count in map(str.split, file)}


def write_list(name, counts):
    os.makedirs(os.path.join(ROOT, LISTS), exist_ok=True)
    with open(list_path(name), "w", encoding="utf-8") as file:
        file.writelines(f"{path} {count}\n" for path, count in sorted(counts.items()) if count)


def count_of(found):
    return dict(Counter(path for path, _, _ in found))


def compare(found, listed):
    """Yields what is not as listed."""
    counts = count_of(found)
    gone = [path for path in listed if path not in counts]
    for path, line, complaint in found:
        if counts[path] > listed.get(path, 0):
            yield f"{path}:{line}: {complaint}"
    for path, count in counts.items():
        if count > (limit := listed.get(path, 0)):
            yield f"{path}: {count} of them, listed are {limit}"
            if limit == 0 and gone:
                yield "  a moved file? git add it, and run .ci/ratchet.py --shrink"
    if any(counts.get(path, 0) < limit for path, limit in listed.items()):
        yield "the list can shrink: run .ci/ratchet.py --shrink"


def shrunk(counts, listed):
    return {path: min(limit, counts.get(path, 0)) for path, limit in listed.items()}


def moved(counts, listed, old, new):
    """The list after what `old` no longer needs was given to `new`, as far as it needs it."""
    spare = listed.get(old, 0) - counts.get(old, 0)
    part = max(0, min(spare, counts.get(new, 0) - listed.get(new, 0)))
    return {**listed, old: listed.get(old, 0) - part, new: listed.get(new, 0) + part}


def git(*arguments):
    return subprocess.run(("git", "-C", ROOT) + arguments, check=True, text=True,
                          stdout=subprocess.PIPE, encoding="utf-8").stdout


def git_moves():
    """(old, new) of each file that moved since the lists were last committed."""
    if not os.path.exists(os.path.join(ROOT, ".git")):
        return []
    since = git("log", "-1", "--format=%H", "--", LISTS).strip()
    moves = git("diff", "--find-renames", "--diff-filter=R", "--name-status", since or "HEAD")
    return [line.split("\t")[1:] for line in moves.splitlines()]


def shrink(tree, moves):
    for name, rule in RULES.items():
        counts, listed = count_of(rule(tree)), read_list(name) or {}
        for old, new in moves:
            listed = moved(counts, listed, old, new)
        write_list(name, shrunk(counts, listed))


# --- Commits ---

SUBJECT = re.compile(r"[\w./-]+(?:, [\w./-]+)*: \S.*")


def judge_commit(subject, body, lines):
    if not SUBJECT.fullmatch(subject):
        yield "its subject is not `area: what`"
    if lines > MAX_UNEXPLAINED_LINES and not body.strip():
        yield f"{lines} changed lines, and no body says why"


def judge_commits(commits):
    fields = git("log", "--no-merges", "--format=%x00%h%x00%s%x00%b%x00", "--numstat", "-M",
                 commits).split("\0")[1:]
    for short, subject, body, stat in zip(*[iter(fields)] * 4):
        lines = sum(int(number) for number in re.findall(r"\d+(?=\t)", stat))
        for complaint in judge_commit(subject, body, lines):
            yield f"{short} {subject}: {complaint}"


# --- Self-tests ---

FOUND = [("a", 1, "bad"), ("a", 2, "bad"), ("b", 7, "bad")]
MECHANICS = [
    ("more than listed is found", lambda: list(compare(FOUND, {"a": 2}))
     == ["b:7: bad", "b: 1 of them, listed are 0"]),
    ("what is listed is left alone", lambda: not list(compare(FOUND, {"a": 2, "b": 1}))),
    ("fewer than listed is found", lambda: ["the list can shrink" in c for c in
                                            compare(FOUND, {"a": 3, "b": 1})] == [True]),
    ("a list shrinks, and does not grow", lambda:
     shrunk({"a": 1, "b": 5}, {"a": 3, "b": 4, "c": 1}) == {"a": 1, "b": 4, "c": 0}),
    ("a moved file takes with it what it needs", lambda:
     moved({"b": 2}, {"a": 3}, "a", "b") == {"a": 1, "b": 2}),
    ("a file that needs all keeps all", lambda:
     moved({"a": 3, "b": 2}, {"a": 3}, "a", "b") == {"a": 3, "b": 0}),
    ("a subject without area is found", lambda: list(judge_commit("Merge the scans", "", 1)) != []),
    ("a long change without body is found", lambda: list(judge_commit("a: b", "\n", 51)) != []),
    ("a good commit passes", lambda: not list(judge_commit("a/b, .ci: c: d", "Why.\n", 51))),
]


def tell(good, what, complaints=()):
    print(f"{'ok' if good else 'not ok'} - {what}")
    for complaint in complaints:
        print("# " + complaint)
    return good


def self_test():
    good = True
    for name, faults, files in CANARIES:
        what = f"self-test: {name} finds {faults} in {', '.join(files)}"
        good = tell(run_canary(name, faults, files), what) and good
    for what, test in MECHANICS:
        good = tell(test(), f"self-test: {what}") and good
    return good


def check(tree):
    good = self_test()
    for name, rule in RULES.items():
        found, listed = list(rule(tree)), read_list(name)
        complaints = (["no list: run .ci/ratchet.py --init " + name] if listed is None
                      else list(compare(found, listed)))
        what = f"{name}: {rule.__doc__} ({len(found)} left)"
        good = tell(not complaints, what, complaints) and good
    return good


def main():
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--shrink", action="store_true")
    mode.add_argument("--move", nargs=2, metavar=("OLD", "NEW"))
    mode.add_argument("--init", nargs="*", metavar="RULE", choices=list(RULES))
    mode.add_argument("--commits", metavar="A..B")
    arguments = parser.parse_args()
    if arguments.commits:
        complaints = list(judge_commits(arguments.commits))
        return not tell(not complaints, f"commits {arguments.commits} say what and why", complaints)
    tree = Tree(ROOT)
    if arguments.init is not None:
        for name in arguments.init or RULES:
            write_list(name, count_of(RULES[name](tree)))
    elif arguments.shrink or arguments.move:
        shrink(tree, [arguments.move] if arguments.move else git_moves())
    else:
        return not check(tree)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the scripts share: the files of a tree and how findings are printed."""
import os
import subprocess
import sys

TOP_IGNORED = {".git", "build", "data", "runs", "node_modules"}


def files(root):
    """Paths of the tree's files relative to root, sorted; build products and caches left out."""
    if os.path.exists(os.path.join(root, ".git")):
        out = subprocess.run(["git", "-c", f"safe.directory={os.path.abspath(root)}", "-C", root,
                              "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             check=True, capture_output=True, text=True).stdout
        paths = {p for p in out.split("\0") if p and os.path.isfile(os.path.join(root, p))}
        return sorted(paths)
    found = []
    for folder, folders, names in os.walk(root):
        if os.path.samefile(folder, root):
            folders[:] = [f for f in folders if f not in TOP_IGNORED]
        folders[:] = [f for f in folders if f != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(found)


def read(root, path):
    """The text of a file, or None if it is not text."""
    with open(os.path.join(root, path), "rb") as handle:
        data = handle.read()
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def finish(script, findings, checked):
    """Prints the findings and ends the script: 0 if there is none, else 1."""
    for finding in findings:
        print(finding)
    print(f"{script}: {checked} files, {len(findings)} findings")
    sys.exit(1 if findings else 0)

"""A hook of mkdocs: CONTRIBUTING.md is a page of the site, and other links that leave docs/ become
their text."""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
ADDED = "CONTRIBUTING.md"


def on_files(files, config):
    root = str(pathlib.Path(config.config_file_path).parent)
    files.append(File(ADDED, root, config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, **_):
    source = page.file.src_path
    # Where the page stands, seen from docs/.
    folder = ".." if source == ADDED else posixpath.dirname(source)
    here = "" if source == ADDED else folder

    def inside(match):
        text, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        path, _, anchor = target.partition("#")
        to = posixpath.normpath(posixpath.join(folder, path))
        if source == ADDED:
            to = to.removeprefix("../docs/")
        if to == "../" + ADDED:
            to = ADDED
        if to.startswith(".."):
            return text
        to = posixpath.relpath(to, here or ".")
        return f"[{text}]({to}{'#' + anchor if anchor else ''})"

    return LINK.sub(inside, markdown)

"""A hook of mkdocs: CONTRIBUTING.md is a page of the site. Files outside docs/ that pages link to,
such as bench/results/*.csv, are copied into the site; links to folders become their text."""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
ADDED = "CONTRIBUTING.md"


def target_of(source, link):
    """(path from the root, anchor) of a link in the page `source`; ("", "") if it leaves the
    checkout or stays in the page."""
    if re.match(r"[a-z]+:|#", link):
        return "", ""
    path, _, anchor = link.partition("#")
    folder = "" if source == ADDED else posixpath.join("docs", posixpath.dirname(source))
    return posixpath.normpath(posixpath.join(folder, path)), anchor


def on_files(files, config):
    root = pathlib.Path(config.config_file_path).parent

    def add(path):
        files.append(File(path, str(root), config.site_dir, config.use_directory_urls))

    add(ADDED)
    linked = set()
    for page in files.documentation_pages():
        text = pathlib.Path(page.abs_src_path).read_text(encoding="utf-8")
        linked.update(target_of(page.src_path, link)[0] for _, link in LINK.findall(text))
    for path in sorted(linked):
        if not path.startswith(("docs/", "..")) and path != ADDED and (root / path).is_file():
            add(path)
    return files


def on_page_markdown(markdown, page, files, **_):
    source = page.file.src_path

    def inside(match):
        text, link = match.groups()
        path, anchor = target_of(source, link)
        if not path:
            return match.group(0)
        to = path.removeprefix("docs/")
        if to == path and files.get_file_from_path(to) is None:
            return text
        to = posixpath.relpath(to, posixpath.dirname(source) or ".")
        return f"[{text}]({to}{'#' + anchor if anchor else ''})"

    return LINK.sub(inside, markdown)

"""A plain client of a live page's event stream (docs/report.md, Live)."""
import json
import urllib.request


def apply(data, changes):
    """Makes the newer data of the older, in place."""
    for path, value, *more in changes:
        at = data
        for key in path if more else path[:-1]:
            at = at[key]
        if more:
            at.extend(more[0])
        else:
            at[path[-1]] = value
    return data


def follow(url, timeout=300):
    """(event, bytes of it, the page's data after it), until the server ends the stream."""
    data, event = None, ""
    with urllib.request.urlopen(url + "events", timeout=timeout) as answer:
        for line in answer:
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                news = json.loads(line[6:])
                data = news if event == "runs" else apply(data, news)
                yield event, len(line), data

"""PostgreSQL's grammar, asked about statements: the Python half of `cargo xtask grammar`."""

import io
import json
import os
import sys
import tarfile
import urllib.request

SOURCE = "https://ftp.postgresql.org/pub/source/v15.18/postgresql-15.18.tar.gz"
# Where a node was written, and what follows from that.
PLACES = {"location", "stmt_location", "stmt_len", "list_start", "list_end", "version"}


def download(folder):
    with urllib.request.urlopen(SOURCE, timeout=60) as answer:
        archive = tarfile.open(fileobj=io.BytesIO(answer.read()))
    os.makedirs(folder + ".part", exist_ok=True)
    for member in archive.getmembers():
        if "/src/test/regress/sql/" in member.name and member.name.endswith(".sql"):
            name = os.path.join(folder + ".part", os.path.basename(member.name))
            with open(name, "wb") as file:
                file.write(archive.extractfile(member).read())
    os.rename(folder + ".part", folder)


def without_places(node):
    if isinstance(node, dict):
        return {key: without_places(value) for key, value in node.items() if key not in PLACES}
    if isinstance(node, list):
        return [without_places(value) for value in node]
    return node


def tree(sql):
    from pglast.parser import parse_sql_json

    return without_places(json.loads(parse_sql_json(sql)))


def difference(left, right, path=""):
    """The first place where two trees differ."""
    if type(left) is not type(right):
        return f"{path}: {short(left)} | {short(right)}"
    if isinstance(left, dict):
        for key in sorted(set(left) | set(right)):
            if left.get(key) != right.get(key):
                return difference(left.get(key), right.get(key), f"{path}.{key}")
    if isinstance(left, list):
        for index, (one, other) in enumerate(zip(left, right)):
            if one != other:
                return difference(one, other, f"{path}[{index}]")
        return f"{path}: {len(left)} | {len(right)} items"
    return f"{path}: {short(left)} | {short(right)}"


def short(value):
    return json.dumps(value)[:120]


def verdict(question):
    from pglast.parser import ParseError

    try:
        theirs, error = tree(question["sql"]), None
    except ParseError as refused:
        theirs, error = None, refused
    printed = question.get("printed")
    if theirs is None and printed is None:
        same = str(error.args[0]) == question["error"]
        detail = f"theirs: {error.args[0]} | ours: {question['error']}"
        return {"verdict": "neither", "same_error": same, "detail": detail}
    if theirs is None:
        return {"verdict": "only ours", "detail": str(error.args[0])}
    if printed is None:
        return {"verdict": "only theirs", "detail": question["error"]}
    if question.get("unsupported"):
        return {"verdict": "unsupported", "unsupported": question["unsupported"]}
    try:
        ours = tree(printed)
    except ParseError as refused:
        return {"verdict": "differ", "detail": f"{refused.args[0]}: {printed}"}
    if ours == theirs:
        return {"verdict": "equal"}
    return {"verdict": "differ", "detail": difference(theirs, ours) + "\n-- printed: " + printed}


def compare(source, target):
    with open(source) as questions, open(target, "w") as verdicts:
        for line in questions:
            question = json.loads(line)
            answer = verdict(question)
            for key in ("file", "line", "sql", "fixed"):
                answer[key] = question.get(key)
            verdicts.write(json.dumps(answer) + "\n")


if sys.argv[1] == "download":
    download(sys.argv[2])
else:
    compare(sys.argv[2], sys.argv[3])

#!/usr/bin/env python3
"""Links of the Markdown pages: every file named is there, and every heading. Prints each that leads nowhere as FILE:LINE: LINK.

    links.py ROOT
"""
import os
import re
import sys


def anchors(path):
    """The names that GitHub gives a page's headings."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"```.*?```", "", f.read(), flags=re.S)
    names, seen = set(), {}
    for title in re.findall(r"^#+ +(.*?) *$", text, re.M):
        name = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")
        n = seen.setdefault(name, 0)
        seen[name] += 1
        names.add(f"{name}-{n}" if n else name)
    return names


def main():
    root = sys.argv[1]
    pages = [os.path.join(root, f) for f in os.listdir(root) if f.endswith(".md")]
    for folder, _, files in os.walk(os.path.join(root, "docs")):
        pages += [os.path.join(folder, f) for f in files if f.endswith(".md")]
    bad = links = 0
    for page in sorted(pages):
        with open(page, encoding="utf-8") as f:
            text = re.sub(r"```.*?```", lambda m: "\n" * m.group().count("\n"), f.read(), flags=re.S)
        for found in re.finditer(r"\]\(([^)\s]+)\)", text):
            link = found.group(1)
            if re.match(r"[a-z]+:", link):
                continue
            links += 1
            name, _, heading = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
            if os.path.exists(target) and (not heading or heading in anchors(target)):
                continue
            bad += 1
            line = text.count("\n", 0, found.start()) + 1
            print(f"{os.path.relpath(page, root)}:{line}: {link}")
    print(f"{links} links, {bad} of them lead nowhere")
    return 1 if bad or not links else 0


if __name__ == "__main__":
    sys.exit(main())

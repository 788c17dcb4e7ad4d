#!/usr/bin/env python3
"""Links of the Markdown pages: every file named is there, and every heading. So is every file that the page of a room, in src or cli,
names in code: below the room, or below a folder around it. Prints each that leads nowhere as FILE:LINE: LINK.

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


def around(folder):
    """A folder of the tree and those around it, up to the root."""
    return [folder, *(around(os.path.dirname(folder)) if folder else [])]


def main():
    root = sys.argv[1]
    pages = [os.path.join(root, f) for f in os.listdir(root) if f.endswith(".md")]
    for top in "docs", "src", "cli":
        for folder, _, files in os.walk(os.path.join(root, top)):
            pages += [os.path.join(folder, f) for f in files if f.endswith(".md")]
    bad = links = 0

    def leads_nowhere(page, text, found):
        print(f"{os.path.relpath(page, root)}:{text.count(chr(10), 0, found.start()) + 1}: {found.group(1)}")
        return 1

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
            bad += leads_nowhere(page, text, found)
        room = os.path.relpath(os.path.dirname(page), root)
        for found in re.finditer(r"`([\w./-]+(?:\.(?:c|h|cuh?|md)|/))`", text) if room.startswith(("src", "cli")) else []:
            links += 1
            if not any(os.path.exists(os.path.join(root, folder, found.group(1))) for folder in around(room)):
                bad += leads_nowhere(page, text, found)
    print(f"{links} links, {bad} of them lead nowhere")
    return 1 if bad or not links else 0


if __name__ == "__main__":
    sys.exit(main())

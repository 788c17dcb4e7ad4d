#!/bin/sh
# A report in a browser: no message on its console, nothing wider than a phone or a desktop, pictures that load, light and dark.
. "$(dirname -- "$0")/common.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    none_run "there is no chromium"
needs reports
python3 "$here/make_data.py" "$work/data" 300 100 || exit 1
LOCKSTEP_DATA=$work/data
export LOCKSTEP_DATA
runs 0 train --quiet --epochs 2 --batch 64 --lr 0.1 --devices cpu:0-1 --log "$work/run.jsonl" --report "$work/one"
long=$work/WWWWWWWWWWWWWWWWWWWWWWWWWWWWWW.jsonl # wider than a phone
cp "$work/run.jsonl" "$long"
runs 0 report "$work/run.jsonl" "$long" --out "$work/two"

cat >"$work/frame.html" <<'HTML'
<!DOCTYPE html><body style="margin:0"><iframe id="frame" style="border:0;height:2000px"></iframe><script>
const [folder, width] = location.hash.slice(1).split(","), frame = document.getElementById("frame");
frame.style.width = width + "px";
frame.onload = () => {
    const page = frame.contentDocument, images = [...page.images];
    document.title = JSON.stringify({
        width: page.documentElement.scrollWidth, svg: page.querySelectorAll("svg").length, headings: page.querySelectorAll("h2").length,
        drawn: [...page.querySelectorAll("svg polyline")].every(line => getComputedStyle(line).stroke.startsWith("rgb")),
        images: images.length, loaded: images.every(image => image.naturalWidth == 28), paper: getComputedStyle(page.body).backgroundColor});
};
frame.src = folder + "/report.html";
</script></body>
HTML
python3 - "$browser" "$work" <<'PY' || wrong "the page"
import html, json, re, subprocess, sys
browser, work = sys.argv[1:]

def open_in(folder, width, scheme):
    run = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--enable-logging=stderr",
                          f"--user-data-dir={work}/browser", f"--blink-settings=preferredColorScheme={scheme}",
                          f"--screenshot={work}/{folder}-{width}.png", f"--window-size={width + 60},2000", "--virtual-time-budget=5000",
                          "--dump-dom", f"file://{work}/frame.html#{folder},{width}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    said = re.findall(r".*:CONSOLE.*", run.stderr.decode(errors="replace"))
    assert not said, said
    titles = re.findall(r"<title>(.*)</title>", run.stdout.decode())
    assert titles, (run.returncode, run.stdout[-500:], run.stderr[-2000:])
    return json.loads(html.unescape(titles[0]))

papers = set()
for folder in ("one", "two"):
    for width in (360, 1280):
        for scheme in (0, 1):
            seen = open_in(folder, width, scheme)
            assert seen["width"] <= width, seen
            assert seen["svg"] == (2 if folder == "one" else 3) and seen["drawn"] and seen["headings"] >= 2, seen
            assert seen["loaded"] and (seen["images"] > 0) == (folder == "one"), seen
            papers.add(seen["paper"])
assert len(papers) == 2, papers
PY
ends

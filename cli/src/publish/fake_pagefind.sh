#!/bin/sh
# Makes files as Pagefind does, for tests of what is done with them.
set -eu
if [ "$1" = --version ]; then
    echo "pagefind 1.2.3"
    exit
fi
if grep -rq "this fails" site; then
    echo "too many words" >&2
    exit 1
fi
mkdir -p out/fragment out/index
find site -name '*.html' | while read -r page; do
    cp "$page" "out/fragment/$(echo "$page" | tr '/' '_').pf_fragment"
done
echo "$$" >out/index/run.pf_index
echo "{}" >out/pagefind-entry.json
touch out/pagefind.js out/pagefind-ui.js

#!/usr/bin/env bash
# Builds everything that a release publishes, into dist/, and publishes nothing:
#   annalist-VERSION-TARGET.tar.gz for each target, annalist-VERSION.cdx.json (a CycloneDX list of what is in the binaries),
#   compose.yaml, annalist.env.example and SHA256SUMS over all of them.
#   deploy/release.sh [--targets "TARGET …"] [--image NAME[@DIGEST]]
# The compose file names the image; without --image, one called `annalist` on the machine that runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

targets="x86_64-unknown-linux-musl aarch64-unknown-linux-musl"
image=annalist
while (($#)); do
    case $1 in
        --targets) targets=${2:?--targets takes a list of targets} ;;
        --image) image=${2:?--image takes the name of an image} ;;
        *)
            echo "deploy/release.sh: unexpected argument $1; it takes --targets and --image" >&2
            exit 2
            ;;
    esac
    shift 2
done

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
rm -rf dist
for target in $targets; do
    deploy/dist.sh "$target"
done

cyclonedx=0.5.9
tool=target/cargo-cyclonedx-$cyclonedx
if [[ ! -x $tool/bin/cargo-cyclonedx ]]; then
    cargo install cargo-cyclonedx --locked --version "$cyclonedx" --root "$tool" --target-dir target/cyclonedx
fi
# With a time of its own and a random serial number it would be another file each time.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
list=annalist-$version.cdx
"$tool/bin/cargo-cyclonedx" cyclonedx --manifest-path cli/Cargo.toml --format json --features aws --target all \
    --override-filename "$list"
# Nobody needs to know where it was built, and another folder makes the same list.
sed "s|file://$(pwd -P)|file:///src|g" "cli/$list.json" >"dist/$list.json"
# It writes one for every member of the workspace.
find . \( -path ./dist -o -path ./target \) -prune -o -name "$list.json" -exec rm {} +

# No checkout is at hand where it runs: the image is pulled.
sed -e "s|\${ANNALIST_IMAGE:-annalist}|\${ANNALIST_IMAGE:-$image}|" -e '/^    build:$/,/^      dockerfile:/d' \
    -e 's|-f deploy/compose.yaml ||' deploy/compose.yaml >dist/compose.yaml
cp deploy/annalist.env.example dist/
(cd dist && sha256sum -- *.tar.gz *.json compose.yaml annalist.env.example >SHA256SUMS)
echo "dist/: $(cd dist && echo *)"

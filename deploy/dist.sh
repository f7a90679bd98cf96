#!/usr/bin/env bash
# Builds what a release holds: dist/annalist-<version>-<target>.tar.gz and dist/SHA256SUMS. From the same commit with the
# same toolchain it makes the same bytes.
#   deploy/dist.sh [TARGET]      such as x86_64-unknown-linux-musl; the machine's own without it
# A musl target is a static binary for any Linux. zig compiles its C and links it, the same on every host.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

host=$(rustc -vV | sed -n 's/^host: //p')
target=${1:-$host}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
name=annalist-$version-$target
workers=$(basename -s .rs workers/fleet/src/bin/*.rs)
# The workers are one program, which is the worker whose name it has.
binaries=(annalist ingest message-writer)

# Times in the tar, and whatever asks for one while it builds.
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
fi
export SOURCE_DATE_EPOCH

# Nobody needs to know where it was built, and the same source in another folder makes the same binary.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$root=/src --remap-path-prefix=$cargo_home=/cargo"
export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$root=/src -ffile-prefix-map=$cargo_home=/cargo"
compile() {
    local build=(cargo build)
    if [[ $1 == *-musl ]]; then
        local tools=target/zig
        if [[ ! -x $tools/bin/cargo-zigbuild ]]; then
            python3 -m venv "$tools"
            "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
                --requirement deploy/zig.txt
        fi
        rustup target add "$1"
        # Without it, zig adds checks to C code that need a library of their own.
        build=(env PATH="$root/$tools/bin:$PATH" CFLAGS="$CFLAGS -fno-sanitize=undefined" cargo zigbuild)
    fi
    "${build[@]}" --profile dist --locked --target "$1" -p annalist -p ingest-service -p fleet \
        --bin annalist --bin ingest --bin message-writer --features annalist/aws,ingest-service/aws,fleet/aws
}
compile "$target"
built=${CARGO_TARGET_DIR:-target}/$target/dist

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
out=$stage/$name
install -d "$out/bin" "$out/share/man/man1" "$out/share/bash-completion/completions" \
    "$out/share/zsh/site-functions" "$out/share/fish/vendor_completions.d" "$out/lib/systemd/system" "$out/share/doc/annalist"
for binary in "${binaries[@]}"; do
    install -m 0755 "$built/$binary" "$out/bin/"
done
for worker in $workers; do
    [[ -e $out/bin/$worker ]] || ln -s message-writer "$out/bin/$worker"
done
# Made by the binary itself, so for another kind of processor by the same build for this one.
annalist=$built/annalist
if [[ ${target%%-*} != "${host%%-*}" ]]; then
    native=${host%%-*}-${target#*-}
    compile "$native"
    annalist=${CARGO_TARGET_DIR:-target}/$native/dist/annalist
fi
"$annalist" man --dir "$out/share/man/man1"
"$annalist" completions bash >"$out/share/bash-completion/completions/annalist"
"$annalist" completions zsh >"$out/share/zsh/site-functions/_annalist"
"$annalist" completions fish >"$out/share/fish/vendor_completions.d/annalist.fish"
"$annalist" dashboards --out "$out/share/doc/annalist" >/dev/null
install -m 0644 deploy/annalist.service "$out/lib/systemd/system/"
install -m 0644 deploy/annalist.env.example deploy/README.md docs/*.md LICENSE-MIT LICENSE-APACHE "$out/share/doc/annalist/"

mkdir -p dist
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
    --mode=u+rwX,go+rX,go-w -C "$stage" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
(cd dist && sha256sum annalist-"$version"-*.tar.gz >SHA256SUMS)
echo "dist/$name.tar.gz"

#!/usr/bin/env bash
# Fetches, checks and builds the llama.cpp that larder links, once per machine, and prints its folder.
#
#   scripts/llama.sh            builds if necessary; the last line of standard output is the folder
#   LARDER_LLAMA_DIR=DIR scripts/llama.sh   the same from your own checkout of llama.cpp v0.5.0
#
# The result is in ${XDG_CACHE_HOME:-~/.cache}/larder/llama-KEY:
#   src/   the sources that were built (larder includes a few of their private headers)
#   lib/   static libraries
# KEY is a hash of all inputs: the package or checkout, the functions of this script that unpack and build it, the
# compiler, and the instruction set of the CPU. Sources that only larder's tests compile (src/tests/) are not part of
# it: they are added to a folder that is already built.
set -euo pipefail

# llama.cpp v0.5.0 comes from this npm package, which contains it as a git bundle. The package also contains an upstream
# pull request as a diff that larder needs: models that are built from user-supplied data may lack optional tensors.
package="node-llama-cpp"
version="3.22.1"
package_sha512="6e5b488a9b9699cd76dc7eed30880318a4ac4ab866865418795502e3c5d38d55bb5c624988927209d95333343f2e25a83e4183a5c2f816f883a60c3ba9f4e20f"
llama_version="v0.5.0"

cache="${XDG_CACHE_HOME:-$HOME/.cache}/larder"
say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

cxx="${CXX:-c++}"
command -v "$cxx" >/dev/null || die "no C++ compiler '$cxx'; run scripts/setup.sh"

# -march=native depends on the machine, so the instruction sets that it enables are part of the key.
native_isa() { "$cxx" -march=native -dM -E -x c++ /dev/null | grep -E '__(SSE|AVX|FMA|F16C|BMI|ARM|AARCH)' | sort; }
own_sources_id() { # of a checkout: its path, and the size and time of every source file
    echo "$LARDER_LLAMA_DIR"
    (cd "$LARDER_LLAMA_DIR" && find CMakeLists.txt cmake common ggml include src vendor -type f -printf '%p %s %T@\n' | sort)
}

fetch_package() {
    local tarball="$cache/$package-$version.tgz"
    if [ ! -f "$tarball" ]; then
        command -v npm >/dev/null || die "npm is needed to fetch llama.cpp; run scripts/setup.sh, or set LARDER_LLAMA_DIR to a checkout of llama.cpp $llama_version"
        say "fetching $package@$version (llama.cpp $llama_version, 35 MB) with npm ..."
        local into
        into=$(mktemp -d "$cache/fetch.XXXXXX")
        (cd "$into" && npm pack --silent "$package@$version" >&2) || {
            rm -rf "$into"
            die "npm could not fetch $package@$version. Check the network and 'npm config get registry' and run the same command again; or put the file at $tarball yourself; or set LARDER_LLAMA_DIR to a checkout of llama.cpp $llama_version."
        }
        mv "$into"/*.tgz "$tarball"
        rm -rf "$into"
    fi
    local got
    got=$(sha512sum "$tarball" | cut -d' ' -f1)
    if [ "$got" != "$package_sha512" ]; then
        mv "$tarball" "$tarball.bad"
        die "$tarball does not have the expected SHA-512 (got $got). It was renamed to $tarball.bad; run the same command again to fetch it anew."
    fi
    echo "$tarball"
}

# The parts of llama.cpp's tree that the build and the tests need.
parts=(CMakeLists.txt LICENSE licenses AUTHORS cmake common ggml include src vendor models/ggml-vocab-gpt-2.gguf)

unpack() { # package -> $home/src, with only `parts`
    local tarball=$1 work
    work=$(mktemp -d "$cache/unpack.XXXXXX")
    tar -xzf "$tarball" -C "$work" package/llama/gitRelease.bundle package/llama/patches
    git clone --quiet --bare -c advice.detachedHead=false "$work/package/llama/gitRelease.bundle" "$work/llama.git"
    rm -rf "$home/src"
    mkdir -p "$home/src"
    git -C "$work/llama.git" archive HEAD -- "${parts[@]}" | tar -x -C "$home/src"
    local diff
    for diff in "$work"/package/llama/patches/*.diff; do
        patch --quiet -d "$home/src" -p1 <"$diff"
    done
    rm -rf "$work"
}

copy_own() { # the user's checkout -> $home/src, with the diff applied if it is missing
    rm -rf "$home/src"
    mkdir -p "$home/src"
    (cd "$LARDER_LLAMA_DIR" && tar -c "${parts[@]}") | tar -x -C "$home/src"
    if ! grep -q 'n_tensors = gguf_get_n_tensors' "$home/src/src/llama-model-loader.cpp"; then
        say "the checkout lacks upstream pull request 22566; applying it to the copy that is built"
        local tarball
        tarball=$(fetch_package)
        tar -xzf "$tarball" -O package/llama/patches/PR-22566.diff | patch --quiet -d "$home/src" -p1 ||
            die "pull request 22566 does not apply to $LARDER_LLAMA_DIR; take a checkout of llama.cpp $llama_version"
    fi
}

build() {
    say "building llama.cpp $llama_version into $home (about 10 minutes on 2 cores, once per machine) ..."
    local log="$home/build.log" source=$1
    cmake -S "$source" -B "$home/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_ARCHIVE_OUTPUT_DIRECTORY="$home/lib" -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_SUBPROCESS=OFF \
        -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT="$llama_version" -DGGML_NATIVE=ON -DGGML_OPENMP=ON \
        -DGGML_CCACHE=OFF -DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON >"$log" 2>&1 ||
        die "configuring llama.cpp failed; the last lines of $log: $(tail -n 5 "$log")"
    cmake --build "$home/build" -j "$(nproc)" --target llama llama-common 2>&1 | tee -a "$log" |
        awk '/^\[ *[0-9]+%\]/ { p = int(substr($0, 2, 3) / 10); if (p > last) { last = p; print "  llama.cpp " p * 10 "%"; fflush() } }' >&2 ||
        die "building llama.cpp failed; the last lines of $log: $(tail -n 20 "$log")"
}

# llama.cpp's program that makes a tiny model of each architecture, and the loader that it was written for: without the
# diff, because with it a model that is built from settings alone lacks all optional tensors.
add_test_parts() { # to $home/src/tests
    local tests="$home/src/tests" program=tests/test-llama-archs.cpp loader=src/llama-model-loader.cpp tarball work
    mkdir -p "$tests"
    if [ -n "${LARDER_LLAMA_DIR:-}" ]; then
        cp "$LARDER_LLAMA_DIR/$program" "$LARDER_LLAMA_DIR/$loader" "$tests"
        if grep -q 'n_tensors = gguf_get_n_tensors' "$tests/${loader##*/}"; then
            tarball=$(fetch_package)
            tar -xzf "$tarball" -O package/llama/patches/PR-22566.diff | patch --quiet -R "$tests/${loader##*/}"
        fi
        return
    fi
    tarball=$(fetch_package)
    work=$(mktemp -d "$cache/unpack.XXXXXX")
    tar -xzf "$tarball" -C "$work" package/llama/gitRelease.bundle
    git clone --quiet --bare -c advice.detachedHead=false "$work/package/llama/gitRelease.bundle" "$work/llama.git"
    git -C "$work/llama.git" show "HEAD:$program" >"$tests/${program##*/}"
    git -C "$work/llama.git" show "HEAD:$loader" >"$tests/${loader##*/}"
    rm -rf "$work"
}

if [ -n "${LARDER_LLAMA_DIR:-}" ] && [ ! -f "$LARDER_LLAMA_DIR/include/llama.h" ]; then
    die "LARDER_LLAMA_DIR=$LARDER_LLAMA_DIR is not a checkout of llama.cpp"
fi
key=$({
    if [ -n "${LARDER_LLAMA_DIR:-}" ]; then own_sources_id; else echo "$package_sha512"; fi
    echo "${parts[@]}"
    declare -f unpack build
    "$cxx" --version
    native_isa
} | sha256sum | cut -c1-16)
home="$cache/llama-$key"

tests_done="$home/src/tests/done-$(declare -f add_test_parts | sha256sum | cut -c1-16)"

mkdir -p "$home"
if [ ! -f "$home/done" ] || [ ! -f "$tests_done" ]; then
    exec 9>"$home/lock"
    flock 9 # two configure runs at once would build in the same folder
fi
if [ ! -f "$home/done" ]; then
    if [ -n "${LARDER_LLAMA_DIR:-}" ]; then
        copy_own
    else
        tarball=$(fetch_package)
        unpack "$tarball"
    fi
    build "$home/src"
    rm -rf "$home/build"
    touch "$home/done"
fi
if [ ! -f "$tests_done" ]; then
    add_test_parts
    touch "$tests_done"
fi
echo "$home"

#!/usr/bin/env bash
# Checks that includes between the modules of src/ follow tests/tidy/layers.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."

bad=0
complain() { echo "layers: $*" >&2; bad=1; }

mapfile -t modules < <(sed -n 's/^\([a-z_\/]*\):.*/\1/p' tests/tidy/layers.txt)

module_of() { # path below src -> its module in layers.txt, base, or nothing
    local folder=${1%/*}
    while true; do
        case " base ${modules[*]} " in *" $folder "*) echo "$folder" && return ;; esac
        case $folder in */*) folder=${folder%/*} ;; *) return ;; esac
    done
}
allowed() { # module
    sed -n "s|^$1: *||p" tests/tidy/layers.txt
}

checked=0
while read -r file; do
    module=$(module_of "${file#src/}")
    [ -n "$module" ] || { complain "$file lies in no module that tests/tidy/layers.txt names" && continue; }
    may=" $(allowed "$module") "
    while read -r header; do
        [ -f "src/$header" ] || continue
        used=$(module_of "$header")
        checked=$((checked + 1))
        if [ "$used" = "$module" ] || [ "$used" = base ]; then continue; fi
        case $may in
        *" $used/* "*) continue ;; # all of its headers are allowed
        *" $used "*) ;;
        *) complain "$file includes $header, but $module may not use $used" && continue ;;
        esac
        case $may in *" ${header%.h} "*) continue ;; esac
        [ "$header" = "$used/${used##*/}.h" ] || complain "$file includes $header, which is private to $used"
    done < <(sed -n 's/^#include "\([a-z_]*\/[a-z_/]*\.h\)"/\1/p' "$file")
done < <(find src -mindepth 2 -name '*.h' -o -mindepth 2 -name '*.cpp')
[ "$checked" -gt 0 ] || complain "no include was checked"
[ "$bad" -eq 0 ] && echo "layers: $checked includes follow tests/tidy/layers.txt"
exit "$bad"

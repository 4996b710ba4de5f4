#!/usr/bin/env bash
# Checks that includes between the folders of src/ follow tests/tidy/layers.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."

bad=0
complain() { echo "layers: $*" >&2; bad=1; }

allowed() { # module
    sed -n "s/^$1: *//p" tests/tidy/layers.txt
}

checked=0
while read -r file; do
    module=$(cut -d/ -f2 <<<"$file") # what lies in its folders belongs to it
    while read -r header; do
        used=${header%%/*}
        [ -d "src/$used" ] || continue
        checked=$((checked + 1))
        if [ "$used" = "$module" ] || [ "$used" = base ]; then continue; fi
        case " $(allowed "$module") " in
        *" $used "*) ;;
        *) complain "$file includes $header, but $module may not use $used" ;;
        esac
        case " $(allowed "$module") " in
        *" ${header%.h} "*) continue ;;
        esac
        [ "$header" = "$used/$used.h" ] || complain "$file includes $header, which is private to $used"
    done < <(sed -n 's/^#include "\([a-z_]*\/[a-z_/]*\.h\)"/\1/p' "$file")
done < <(find src -mindepth 2 -name '*.h' -o -mindepth 2 -name '*.cpp')
[ "$checked" -gt 0 ] || complain "no include was checked"
[ "$bad" -eq 0 ] && echo "layers: $checked includes follow tests/tidy/layers.txt"
exit "$bad"

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Formats the project's C++ files, or with --check tells which are not formatted.
# clang-format 14 decides: other versions format some lines differently.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "format: $1" >&2
  echo "hint: $2" >&2
  exit 1
}

formatter=""
for candidate in "${CLANG_FORMAT:-}" clang-format-14 .venv/bin/clang-format clang-format; do
  if [[ -n "$candidate" ]] && command -v "$candidate" >/dev/null &&
    "$candidate" --version | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
[[ -n "$formatter" ]] || fail "clang-format 14 is not installed" "run scripts/setup.sh"

# Tracked files and new ones, but none that git ignores.
mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard \
  -- '*.cpp' '*.h' | sort -zu | while IFS= read -r -d '' file; do
    [[ -f "$file" ]] && printf '%s\0' "$file"
  done)
((${#files[@]})) || exit 0

case "${1:-}" in
  --check)
    "$formatter" --dry-run --Werror "${files[@]}" ||
      fail "some files are not formatted" "run make format"
    echo "format: ${#files[@]} files are well formatted"
    ;;
  "") "$formatter" -i "${files[@]}" ;;
  *) fail "unknown option '$1'" "use --check, or nothing" ;;
esac

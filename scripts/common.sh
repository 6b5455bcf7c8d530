# Sourced by the scripts beside it: where things are, and how to say things.
# Words go to stderr, so that stdout stays data.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
venv=$root/.venv
jobs=${DT_JOBS:-$(nproc)}

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# quietly LOG CMD...: runs CMD with all that it prints in LOG; on failure shows
# the end of LOG and gives CMD's exit code.
quietly() {
  local log=$1 code=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || code=$?
  if [ "$code" -ne 0 ]; then
    say "'$*' failed with exit code $code; the end of $log:"
    tail -n 60 "$log" | sed 's/^/  | /' >&2
  fi
  return "$code"
}

# end_jobs_with_us: what runs in the background is a process group each, and ends
# with all that it has started when a signal ends this script.
end_jobs_with_us() {
  set -m
  trap 'for job in $(jobs -p); do kill -- "-$job"; done; exit 130' INT TERM
}

# help_wanted "$@": true when an argument asks for help.
help_wanted() {
  local arg
  for arg in "$@"; do
    case $arg in -h | --help) return 0 ;; esac
  done
  return 1
}

# The comment at the top of a script is its help text.
print_help() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"; }

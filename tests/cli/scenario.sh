#!/usr/bin/env bash
# One scenario of the artesian program: scenario.sh TREE ENGINE STATIC_ENGINE MAKE_MODEL NAME. TREE is an installed tree (bin,
# lib) with a stand-in for the plugin. Exits 0 if the scenario holds, else says what did not.
set -u
tree=$1 engine=$2 static_engine=$3 make_model=$4 name=$5
artesian=$tree/bin/artesian
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_RUNTIME_DIR=$work
cd "$work" || exit 1
failures=0

# want CODE COMMAND...: runs it; its output is in $work/out and $work/err
want() {
  local code=$1 got=0
  shift
  "$@" >out 2>err </dev/null || got=$?
  [ "$got" = "$code" ] || bad "'$*' ended with $got, not $code: $(cat err)"
}
bad() {
  printf 'scenario %s: %s\n' "$name" "$1"
  failures=$((failures + 1))
}
has() { # has FILE TEXT
  grep -qF -- "$2" "$1" || bad "$1 has no '$2' but: $(cat "$1")"
}
one_line() { # one sentence on stderr, and it names the program
  [ "$(wc -l <err)" = 1 ] || bad "not one line: $(cat err)"
  grep -q '^artesian: ' err || bad "does not begin with artesian: $(cat err)"
}
run() { "$artesian" run "$@"; }

scenario_exit_codes() {
  for code in 0 1 7 255; do want $code run -- sh -c "exit $code"; done
  want 137 run -- sh -c 'kill -KILL $$'
  want 143 run -- sh -c 'kill -TERM $$'
  want 3 run -- "$engine" 3
}

scenario_arguments() {
  want 0 run -- printf '%s|' --memory 8G -- 'a b' '' --help
  [ "$(cat out)" = '--memory|8G|--|a b||--help|' ] || bad "arguments changed: $(cat out)"
  want 0 run --quiet -- sh -c 'cat; echo $0' name
  [ -s err ] && bad "not quiet: $(cat err)"
  has out name
}

scenario_missing_program() {
  want 127 run -- no-such-program
  one_line
  has err "no-such-program: there is no such program on the PATH"
  want 127 run -- ./no/such
  one_line
  echo text >plain
  want 126 run -- ./plain
  one_line
  has err "is not executable"
  want 126 run -- /tmp
  one_line
  printf '#!/no/such/interpreter\n' >script && chmod +x script
  want 127 run -- ./script
  one_line
}

scenario_wrong_usage() {
  local line
  while read -r line; do
    # shellcheck disable=SC2086
    want 2 "$artesian" $line
    one_line
  done <<'END'

bogus
run
run --
run llama-server
run --bogus -- true
run --memory -- true
run --memory 8X -- true
run --memory -1 -- true
run --memory 0 -- true
run --mode sometimes -- true
run --eviction none-such -- true
stat --pid zero
stat --pid -3
stat extra
completion
completion fish
inspect
inspect model.gguf --memory 8X
inspect model.gguf --bogus
bench
bench bogus
bench device
bench device . --size 0
bench device . --size 8X
bench device . --depth 0
bench device . --depth 5000
bench device . --seconds 0
bench device . --request 0
bench device . --engine none
bench device no-such-file --overwrite
bench device /dev/null
bench device no/such/folder/file
bench policy --policy none-such
bench policy --traces no/such/folder
END
  want 2 run --memory 8X -- true
  has err "--memory: '8X' is not a size"
  want 2 run --eviction none-such -- true
  has err "none-such"
  has err "lru"
  want 2 run --memory 8G --stats-file /no/such/folder/file -- true
  has err "/no/such/folder/file"
}

scenario_signals() {
  mkfifo ready
  for signal in INT TERM HUP QUIT USR1 USR2; do
    # A background job of a script ignores SIGINT and SIGQUIT, and hands that on; env takes it back.
    env --default-signal=INT,QUIT "$artesian" run --quiet -- bash -c \
      "trap 'kill \$sleeper; exit 42' $signal; sleep 60 & sleeper=\$!; echo >ready; wait; exit 1" &
    local pid=$! code=0
    read -r -t 20 _ <ready || bad "$signal: the program did not start"
    kill -s "$signal" "$pid"
    wait "$pid" || code=$?
    [ "$code" = 42 ] || bad "$signal: ended with $code, not 42"
  done
}

scenario_killed() { # if we are killed, the program gets SIGTERM
  mkfifo ready
  "$artesian" run --quiet -- bash -c \
    "trap 'kill \$sleeper; echo gone >ready; exit' TERM; sleep 60 & sleeper=\$!; echo up >ready; wait" &
  local pid=$! word=
  exec 3<>ready
  read -r -t 20 word <&3
  [ "$word" = up ] || bad "the program did not start"
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null
  read -r -t 20 word <&3
  [ "$word" = gone ] || bad "the program was not told: '$word'"
}

scenario_environment() {
  want 0 run --memory 1.5G --mode on --eviction lru --stats-file kept -- env
  has out "LD_PRELOAD=$tree/lib/libartesian-preload.so"
  has out "ARTESIAN_PLUGIN=$tree/lib/libggml-artesian.so"
  has out "ARTESIAN_MEMORY=1610612736"
  has out "ARTESIAN_MODE=on"
  has out "ARTESIAN_EVICTION=lru"
  has out "ARTESIAN_STATS=kept"
  [ "$(stat -c %s,%a kept)" = 8388608,600 ] || bad "the stats file is $(stat -c %s,%a kept)"
  want 0 run -- env
  grep -q '^ARTESIAN_MEMORY=' out && bad "a budget was made up"
  grep -q '^ARTESIAN_STATS='"$work"'/artesian/[0-9]*\.stats$' out || bad "no stats file: $(grep STATS out)"
  [ "$(stat -c %a artesian)" = 700 ] || bad "the runtime folder is open to others"
  [ -z "$(ls artesian)" ] || bad "the stats file was left behind"
  # (a sanitizer in the program under test would object to not being first)
  ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6 want 0 run -- env
  has out "LD_PRELOAD=$tree/lib/libartesian-preload.so:/lib/x86_64-linux-gnu/libm.so.6"
  want 0 run --mode off -- env
  grep -q '^LD_PRELOAD=' out && bad "off, and yet there"
  [ -s err ] && bad "off, and yet not silent: $(cat err)"
}

scenario_static_engine() {
  want 5 run -- "$static_engine"
  has out "preload ''"
  one_line
  has err "has ggml linked in"
  cp "$static_engine" text_only && strip text_only # nothing to see it by: runs with the shim, which is harmless
  want 5 run -- ./text_only
}

scenario_door_opens() {
  want 0 run -- "$engine"
  has out "2 backends"
  has err "artesian: the door was not opened" # the stand-in writes figures only when told to
  export FAKE_STATS='{"version":1,"state":"active","hits":712,"misses":288,"tokens":64,"bytes_read":2810000000,
    "read_busy_ns":2021582733,"stall_ns":1920000000,"committed_bytes":432013312,"budget_bytes":440401920}'
  want 0 run -- "$engine"
  has err "artesian: 64 tokens: 71.2 % hits, 2.81 GB read at 1.39 GB/s, 1.92 s stalled, 412.0 MiB of 420.0 MiB used"
  export FAKE_STATS='{"state":"active","tokens":1,"hits":1,"bytes_read":5}'
  want 0 run -- "$engine"
  has err "artesian: 1 token: 100.0 % hits, 5 B read, 0.00 s stalled"
  export FAKE_STATS='{"state":"active","tokens":2,"bytes_read":5}'
  want 0 run -- "$engine"
  has err "artesian: 2 tokens: 5 B read, "
  export FAKE_STATS='{"state":"aside","reason":"the model (98.4 MB) fits in memory"}'
  want 4 run -- "$engine" 4
  has err "artesian: stepped aside: the model (98.4 MB) fits in memory"
  export FAKE_STATS='{"state":"refused","reason":"ggml 0.99 is not known"}'
  want 0 run -- "$engine"
  has err "artesian: the door stayed shut: ggml 0.99 is not known"
  export FAKE_STATS='{"state":"active"'
  want 0 run -- "$engine"
  one_line
  has err "what the door did is not known"
}

scenario_incomplete_install() {
  mkdir -p other/bin && cp "$artesian" other/bin/
  want 2 other/bin/artesian run -- true
  one_line
  has err "libggml-artesian.so: is not there"
}

scenario_stat() {
  want 1 "$artesian" stat
  one_line
  want 1 "$artesian" stat --json
  [ "$(cat out)" = '[]' ] || bad "not an empty list: $(cat out)"
  echo old >artesian/999999999.stats
  mkfifo ready go
  export FAKE_STATS='{"state":"active","pid":7,"model":"/m.gguf","engine":"ggml 0.26.0","hits":30,"misses":10,"tokens":5,
    "queue_depth":12,"layers":[{"layer":3,"slots":8,"resident":4,"resident_bytes":1048576,"hits":30,"misses":10}]}'
  "$artesian" run --quiet -- bash -c "'$engine'; echo >ready; read -r _ <go" >/dev/null &
  local pid=$!
  read -r -t 20 _ <ready || bad "the program did not start"
  want 0 "$artesian" stat
  has out "(run $pid): active"
  has out "75.0 % hits"
  has out "queue depth 12"
  grep -Eq '^ +3 +8 +4 +1.00 MiB +30 +10 +75.0$' out || bad "no row for the layer: $(cat out)"
  [ -e artesian/999999999.stats ] && bad "a dead run's file was left"
  want 0 "$artesian" stat --pid "$pid" --json
  has out "\"run_pid\":$pid"
  has out '"resident_bytes":1048576'
  want 0 "$artesian" stat --pid 7
  want 1 "$artesian" stat --pid 1
  has err "no open door belongs to process 1"
  echo >go
  wait "$pid"
  want 1 "$artesian" stat
}

scenario_inspect() {
  "$make_model" model.gguf 1
  local before
  before=$(cksum model.gguf)
  want 0 "$artesian" inspect model.gguf --memory 64M --memory 1M
  [ -s err ] && bad "not silent: $(cat err)"
  for text in 'qwen3moe' '2 layers' '16 experts, 2 used' 'layers 0-1: 16 experts' 'the device reading' 'hit rate' \
    'smallest budget that works' 'below this a plain LRU hits nothing' '1.00 MiB' 'too small' '64.0 MiB' 'all in memory'; do
    has out "$text"
  done
  want 0 "$artesian" inspect model.gguf --no-measure --json
  python3 -c 'import json, sys
report = json.load(open("out"))
ok = report["bandwidth"] == 0 and report["expert_bytes"] == 2 * 3 * 16 * 256 * 256 // 32 * 34 and report["budgets"]
sys.exit(not ok)' || bad "not the facts: $(cat out)"
  want 0 "$artesian" inspect model.gguf --json
  python3 -c 'import json, sys; sys.exit(json.load(open("out"))["bandwidth"] <= 0)' || bad "not measured: $(cat out)"
  [ "$(cksum model.gguf)" = "$before" ] || bad "the model was changed"
  "$make_model" split.gguf 3
  want 0 "$artesian" inspect split-00001-of-00003.gguf --no-measure
  has out '3 files'
}

scenario_inspect_bad_files() {
  "$make_model" model.gguf 1
  "$make_model" split.gguf 3
  head -c 1000 model.gguf >header_cut.gguf
  head -c 2000000 model.gguf >data_cut.gguf
  head -c 100000 /dev/zero | tr '\0' 'x' >noise.gguf
  : >empty.gguf
  for file in header_cut data_cut noise empty none; do
    want 2 "$artesian" inspect $file.gguf
    one_line
    has err "$file.gguf"
  done
  want 2 "$artesian" inspect data_cut.gguf
  has err 'offset'
  want 2 "$artesian" inspect split-00002-of-00003.gguf
  has err 'give the first one'
  rm split-00003-of-00003.gguf
  want 2 "$artesian" inspect split-00001-of-00003.gguf
  one_line
  has err 'split-00003-of-00003.gguf'
  want 2 "$artesian" inspect .
  one_line
}

scenario_bench_device() {
  local quick='--seconds 0.1 --request 64K --request 128K --depth 1 --depth 4'
  mkdir folder
  # shellcheck disable=SC2086
  want 0 "$artesian" bench device folder --size 4M $quick
  for text in 'scratch file of 4.00 MiB' 'best read' 'best write' '128.0 KiB' 'p99'; do has out "$text"; done
  # shellcheck disable=SC2086
  want 0 "$artesian" bench device folder/new --size 4M $quick --json
  python3 -c 'import json, sys
report = json.load(open("out"))
points = {(p["op"], p["request_bytes"], p["depth"]) for p in report["points"] if p["bytes_per_second"] > 0}
ok = points == {(op, size, depth) for op in ("read", "write") for size in (65536, 131072) for depth in (1, 4)}
sys.exit(not (ok and report["scratch"] and report["engine"] in ("io_uring", "threads")))' || bad "not the points: $(cat out)"
  [ -z "$(ls -A folder)" ] || bad "left behind: $(ls -A folder)"
  head -c 4M /dev/urandom >file
  local before
  before=$(cksum file)
  # shellcheck disable=SC2086
  want 0 "$artesian" bench device file $quick --engine threads
  has out 'threads'
  grep -q write out && bad "written without being told to: $(cat out)"
  [ "$(cksum file)" = "$before" ] || bad "the file was changed"
  # shellcheck disable=SC2086
  want 0 "$artesian" bench device file $quick --overwrite
  has out 'best write'
  [ "$(cksum file)" = "$before" ] && bad "nothing was written"
  [ "$(stat -c %s file)" = 4194304 ] || bad "the file has another size now"
  want 1 "$artesian" bench device folder --size 4000T
  one_line
  has err 'no space'
  [ -z "$(ls -A folder)" ] || bad "left behind: $(ls -A folder)"
}

scenario_bench_device_interrupted() {
  mkdir folder
  env --default-signal=INT "$artesian" bench device folder --size 4M --seconds 3600 >out 2>err &
  local pid=$! code=0
  until ls -l "/proc/$pid/fd" 2>/dev/null | grep -q 'folder/.*deleted'; do # the scratch file is there
    kill -0 "$pid" 2>/dev/null || { bad "ended: $(cat err)" && return; }
  done
  kill -INT "$pid"
  wait "$pid" || code=$?
  [ "$code" = 130 ] || bad "ended with $code, not 130"
  [ -z "$(ls -A folder)" ] || bad "left behind: $(ls -A folder)"
}

scenario_bench_policy() {
  mkdir traces
  {
    echo '# model=m n_layer=1 n_expert=8 n_expert_used=2'
    echo '# layer=0 expert_bytes=1000'
    echo 'turn,phase,step,layer,slot,expert,weight'
    for ((step = 0; step < 64; step++)); do
      echo "0,1,$step,0,0,$((step % 3)),0.6"
      echo "0,1,$step,0,1,$((3 + step % 5)),0.4"
    done
  } >traces/m.route.csv
  want 0 "$artesian" bench policy --traces traces
  for text in 'optimum' 'lru-in-turn' 'policy.way.0.5' 'policy.flat' 'm '; do has out "$text"; done
  ARTESIAN_TRACES=traces want 0 "$artesian" bench policy --json
  python3 -c 'import json, sys
report = json.load(open("out"))
sys.exit(not any(case["trace"] == "m" for case in report["replay"]["cases"]))' || bad "not replayed: $(cat out)"
  want 1 env -u ARTESIAN_TRACES "$artesian" bench policy --check # no recorded routes: not measured is missed
  has out 'MISSED'
  echo rubbish >traces/m.route.csv
  want 2 "$artesian" bench policy --traces traces
  one_line
  has err 'm.route.csv'
}

# A llama-completion that opens backends, says something and how fast it was. $1: what it says through the door.
make_engine() {
  printf '#!/bin/bash\n"%s" >/dev/null\n' "$engine" >llama-completion
  cat >>llama-completion <<END
for argument; do [ "\$argument" != "\${SLOW_ARGUMENT:-none}" ] || { echo up >ready; sleep 60 & wait; }; done
if [ -n "\${LD_PRELOAD:-}" ]; then echo "$1"; else echo "the sea rises"; fi
echo "prompt eval time = 1000.00 ms / 512 tokens (..., 512.00 tokens per second)" >&2
echo "       eval time =  700.00 ms /   7 runs   (..., 10.00 tokens per second)" >&2
END
  chmod +x llama-completion
}

bench_weights() { "$artesian" bench weights --model model.gguf --engine ./llama-completion --tokens 8 "$@"; }

scenario_bench_weights() {
  export XDG_CACHE_HOME=$work/cache
  unset ARTESIAN_TRACES ARTESIAN_ENGINE_BIN ARTESIAN_MODEL
  "$make_model" model.gguf 1
  make_engine "the sea rises"
  export FAKE_STATS='{"state":"active","decode":{"tokens":7,"bytes_read":7000000,"compute_ns":7000000,"hits":3,"misses":1}}'
  want 0 bench_weights --case fits.active --repeat 2 --check
  has out "model.gguf, no limit, artesian run --mode on, 512 + 8 tokens, 2 runs; prefill tokens/s 512; decode tokens/s 10.0"
  has out "fits.active.decode"
  grep -q MISSED out && bad "missed: $(cat out)"
  has err "4 of 4: model.gguf" # where no terminal shows one line, each run has one
  want 0 bench_weights --case fits.active --repeat 1 --json
  grep -q '"all_met": true' out || bad "not met: $(cat out)"
  want 0 bench_weights --case fits.active --repeat 1 --markdown
  has out "| 100.00 % | ≥ 97 % |"
  # a door that is not what the case wants is no figure
  want 0 bench_weights --case fits.aside --repeat 1
  has out "the door is active and not aside"
  want 1 bench_weights --case fits.aside --repeat 1 --check
  # another text is never well, asked or not
  make_engine "the sea falls"
  want 1 bench_weights --case fits.active --repeat 1
  has out "its text differs"
  [ -z "$(ls artesian)" ] || bad "the stats file was left behind: $(ls artesian)"
}

scenario_bench_weights_limits() { # where no group can be made, cases are skipped, and say so
  unset ARTESIAN_TRACES ARTESIAN_ENGINE_BIN ARTESIAN_MODEL
  "$make_model" model.gguf 1
  make_engine "the sea rises"
  export FAKE_STATS='{"state":"active"}'
  # with room for what AddressSanitizer keeps of memory that was freed
  want 0 bench_weights --case first_token.900 --repeat 1 --limit 2G
  grep -q 'model.gguf, 2.15 GB, artesian run, 16 + 1 tokens, 1 run' out || has out "skipped: no memory limit can be set here"
  want 0 bench_weights --case moe.900.decode --repeat 1 --limit 2G --json
  grep -q '"bandwidth_bytes_per_second"' out || bad "no bandwidth: $(cat out)"
}

scenario_bench_weights_interrupted() { # programs are ended, groups and files go
  unset ARTESIAN_TRACES ARTESIAN_ENGINE_BIN ARTESIAN_MODEL
  "$make_model" model.gguf 1
  make_engine "the sea rises"
  mkfifo ready
  export FAKE_STATS='{"state":"active"}' SLOW_ARGUMENT=--no-repack
  exec 3<>ready
  env --default-signal=INT "$artesian" bench weights --model model.gguf --engine ./llama-completion --case first_token \
    --repeat 1 --limit 2G --limit 2G >out 2>err &
  local pid=$! code=0 word=
  read -r -t 20 word <&3 || grep -q "no memory limit" err || bad "no program was started: $(cat err)"
  kill -INT "$pid"
  wait "$pid" || code=$?
  [ "$code" = 130 ] || [ -z "$word" ] || bad "ended with $code, not 130: $(cat err)"
  [ -z "$(ls artesian)" ] || bad "the stats file was left behind: $(ls artesian)"
}

scenario_bench_weights_usage() {
  local line
  "$make_model" model.gguf 1
  make_engine "the sea rises"
  while read -r line; do
    # shellcheck disable=SC2086
    want 2 "$artesian" bench weights $line
    one_line
  done <<'END'
--case none.such
--repeat 0
--tokens 3
--limit much
--json --markdown
--model no-such.gguf
--model scenario-no-model
--model model.gguf --case dense --engine ./llama-completion
--model model.gguf --engine ./no-such-engine
END
  want 0 "$artesian" bench weights --list
  has out "moe.560.prefill"
  has out "policy"
  want 2 bench_weights --case dense
  has err "not possible with the model"
}

scenario_store() {
  # On the disk of the tree: a memory file system may refuse direct reads.
  local dir ns=(--weights sha256:77ab)
  dir=$(mktemp -d "$tree/store-XXXXXX") && trap "rm -rf '$work' '$dir'" EXIT
  want 2 "$artesian" store stat --path "$dir"
  one_line
  want 0 "$artesian" store init --path "$dir" --size 24M --segment 2M --block-max 1M --write-budget 1G
  want 1 "$artesian" store init --path "$dir" --size 24M --segment 2M --block-max 1M # it is not empty
  one_line
  [ "$(stat -c %s "$dir/artesian.store")" -le $((24 << 20)) ] || bad "larger than its cap"
  [ "$(stat -c %a "$dir/artesian.store")" = 600 ] || bad "others may read it"
  head -c 100000 /dev/urandom >block
  want 0 "$artesian" store put --path "$dir" "${ns[@]}" one block
  has out 'one: stored'
  want 0 "$artesian" store put --path "$dir" "${ns[@]}" one block
  has out 'one: present'
  want 0 "$artesian" store put --path "$dir" "${ns[@]}" hex:00ff block
  want 0 "$artesian" store get --path "$dir" "${ns[@]}" one back
  cmp block back || bad "not the same bytes"
  want 1 "$artesian" store get --path "$dir" --weights sha256:other one other # another namespace
  has err 'miss'
  want 0 "$artesian" store ls --path "$dir"
  has out ' 100000  one'
  has out ' 100000  hex:00ff'
  want 0 "$artesian" store ls --path "$dir" --json
  want 0 "$artesian" store stat --path "$dir" --json
  python3 -c 'import json, sys
sys.exit(json.load(open("out"))["blocks"] != 2)' || bad "not two blocks: $(cat out)"
  want 0 "$artesian" store stat --path "$dir"
  has out '2 blocks'
  has out 'the budget is'
  want 2 "$artesian" store put --path "$dir" "${ns[@]}" --policy none three block
  has err 'second-sighting'
  want 1 "$artesian" store put --path "$dir" "${ns[@]}" --policy second-sighting+clock three block
  has err 'three: rejected'
  want 0 "$artesian" store rm --path "$dir" "${ns[@]}" one
  want 1 "$artesian" store rm --path "$dir" "${ns[@]}" one
  want 1 "$artesian" store get --path "$dir" "${ns[@]}" one back
  want 0 "$artesian" store verify --path "$dir"
  has out '1 blocks'
  want 2 "$artesian" store put --path "$dir" "${ns[@]}" hex:0 block
  one_line
  want 2 "$artesian" store put --path "$dir" "${ns[@]}" big "$artesian" # beyond --block-max
  want 2 "$artesian" store get --path "$dir" one back                    # no namespace without weights
  # a flipped bit is found, and never handed out
  printf '\377' | dd of="$dir/artesian.store" bs=1 seek=$((2097152 + 26 * 4096 + 4096 * 2 + 8000)) conv=notrunc 2>/dev/null
  want 1 "$artesian" store verify --path "$dir"
  want 1 "$artesian" store get --path "$dir" "${ns[@]}" hex:00ff back
}

scenario_store_care() {
  local dir ns=(--weights sha256:77ab)
  dir=$(mktemp -d "$tree/store-XXXXXX") && trap "rm -rf '$work' '$dir'" EXIT
  for one in a b; do want 0 "$artesian" store init --path "$dir/$one" --size 24M --segment 1M --block-max 256K; done
  head -c 200000 /dev/urandom >block
  for i in $(seq 30); do "$artesian" store put --path "$dir/a" "${ns[@]}" "block$i" block >out 2>err || bad "put: $(cat err)"; done
  for i in $(seq 2 30); do "$artesian" store rm --path "$dir/a" "${ns[@]}" "block$i" 2>err || bad "rm: $(cat err)"; done
  want 0 "$artesian" store compact --path "$dir/a"
  has out 'emptied'
  want 0 "$artesian" store pin --path "$dir/a" "${ns[@]}" prompt block1
  want 1 "$artesian" store pin --path "$dir/a" "${ns[@]}" prompt block2
  has err 'block2: miss'
  want 0 "$artesian" store pins --path "$dir/a"
  has out '1 blocks'
  has out 'prompt'
  want 0 "$artesian" store unpin --path "$dir/a" "${ns[@]}" prompt
  want 1 "$artesian" store unpin --path "$dir/a" "${ns[@]}" prompt
  one_line
  want 0 "$artesian" store repair --path "$dir/a"
  has out '0 were bad'
  want 0 "$artesian" store export --path "$dir/a" blocks
  has out '1 blocks of 1 namespaces'
  [ "$(stat -c %a blocks)" = 600 ] || bad "others may read the blocks"
  want 1 "$artesian" store export --path "$dir/a" blocks
  one_line
  want 0 "$artesian" store import --path "$dir/b" blocks
  has out '1 blocks of 1 namespaces were taken'
  want 0 "$artesian" store get --path "$dir/b" "${ns[@]}" block1 back
  cmp block back || bad "not the same bytes"
  head -c 1000 blocks >short
  want 2 "$artesian" store import --path "$dir/b" short
  one_line
  has err 'ends too soon'
  want 0 "$artesian" store stat --path "$dir/a" --endurance 600T
  has out 'rated for'
}

scenario_store_encrypted() {
  local dir ns=(--weights sha256:77ab)
  dir=$(mktemp -d "$tree/store-XXXXXX") && trap "rm -rf '$work' '$dir'" EXIT
  head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >key
  want 1 "$artesian" store init --path "$dir" --size 24M --segment 2M --block-max 1M --key-file key
  one_line
  has err 'mode must be 0600'
  chmod 600 key
  want 0 "$artesian" store init --path "$dir" --size 24M --segment 2M --block-max 1M --key-file key
  yes 'a transcript in another form' | head -c 100000 >block
  want 0 "$artesian" store put --path "$dir" "${ns[@]}" --key-file key about block
  want 0 "$artesian" store get --path "$dir" "${ns[@]}" --key-file key about back
  cmp block back || bad "not the same bytes"
  for text in transcript about 77ab; do
    grep -q "$text" "$dir/artesian.store" && bad "'$text' can be read in the store"
  done
  for command in stat ls verify; do
    want 2 "$artesian" store $command --path "$dir"
    one_line
    has err 'its key (fingerprint '
  done
  head -c 32 /dev/urandom >other && chmod 600 other
  want 2 "$artesian" store stat --path "$dir" --key-file other
  one_line
  has err "the store's has"
  want 0 "$artesian" store stat --path "$dir" --key-file key
  want 0 "$artesian" store ls --path "$dir" --key-file key
  has out 'about'
  want 0 "$artesian" store verify --path "$dir" --key-file key
  want 2 "$artesian" store export --path "$dir" --key-file key blocks
  one_line
  has err '--plain'
  want 0 "$artesian" store export --path "$dir" --key-file key --plain blocks
}

scenario_artesiand() { # the daemon: shares a store, is asked while it runs, ends when told and is owned by one
  local dir pid
  dir=$(mktemp -d "$tree/daemon-XXXXXX") && trap "rm -rf '$work' '$dir'" EXIT
  want 2 "$tree/bin/artesiand" --path "$dir" # there is none, and no size to make one
  one_line
  "$tree/bin/artesiand" --path "$dir" --size 24M --metrics 0 >daemon 2>&1 &
  pid=$!
  for _ in $(seq 100); do
    [ -S "$dir/artesian.store.attach" ] && break
    sleep 0.1
  done
  [ "$(stat -c %a "$dir/artesian.store.attach")" = 600 ] || bad "others may attach"
  want 0 "$artesian" store stat --path "$dir"
  has out '0 blocks'
  want 1 "$tree/bin/artesiand" --path "$dir"
  one_line
  kill -TERM $pid
  wait $pid || bad "ended with $?: $(cat daemon)"
  has daemon 'processes of this user may attach'
  has daemon 'closed'
  [ -e "$dir/artesian.store.attach" ] && bad "its socket is still there"
  want 0 "$artesian" store verify --path "$dir"
}

scenario_serve() {
  local serve=("$artesian" serve --kv 64M --kv-path "$work/kv")
  want 2 "${serve[@]}"
  one_line
  has err 'name the server after --'
  want 2 "${serve[@]}" --upstream http://127.0.0.1:1 -- llama-server
  want 2 "${serve[@]}" --upstream http://127.0.0.1:1
  has err '--slot-dir'
  want 2 "${serve[@]}" --upstream ftp://x --slot-dir "$work"
  has err 'takes the form http://host:port'
  want 2 "${serve[@]}" --upstream http://127.0.0.1:1 --slot-dir "$work/none"
  one_line
  want 2 "${serve[@]}" --host 0.0.0.0 -- sh -c 'exit 0'
  has err 'an API key is asked for'
  want 2 "${serve[@]}" -- no-such-server
  has err 'there is no such program'
  want 2 "${serve[@]}" -- sh --slot-save-path x
  has err 'leave out --slot-save-path'
  [ -e kv ] && bad "a store was made before the options were looked at"
  # A server that ends before it was ready is not started again; its exit code is ours.
  want 7 "${serve[@]}" --port 0 -- sh -c 'exit 7'
  [ "$(stat -c %a kv)" = 600 ] || bad "others may read the store"
  [ -z "$(ls -d /dev/shm/artesian-gateway-* 2>/dev/null)" ] || bad "a staging folder is left"
}

scenario_nand() {
  want 0 "$artesian" nand profiles
  for name in xlflash-slc cache-100dwpd enterprise-tlc client-tlc capacity-qlc nextgen-pcie6 spu-mixed 970pro mqsim; do
    has out "$name"
  done
  want 0 "$artesian" nand profiles 970pro
  has out "ASSUMPTION: "
  has out "source: NVMeVirt"
  want 0 "$artesian" nand profiles 970pro --file
  sed 's/"channels": {"value": 8/"channels": {"value": 0/' out >bad.json && mv out mine.json
  printf '[drive]\ncapacity=1G\nseconds=0.01\n[reads]\nrw=randread\niodepth=4\n' >w.ini
  want 0 "$artesian" nand run --profile mine.json --workload w.ini --report page.html --json
  has out '"digest"'
  cp out first
  has page.html "</html>"
  want 0 "$artesian" nand run --profile 970pro --workload w.ini --json
  cmp -s out first || bad "the same run gave other figures"
  want 0 "$artesian" nand compare 970pro enterprise-tlc --workload w.ini
  has out "read p99 us"
  want 2 "$artesian" nand run --profile bad.json --workload w.ini
  one_line
  has err "bad.json:6: channels is 0, which is not between 1 and 256"
  want 2 "$artesian" nand run --profile floppy --workload w.ini
  one_line
  has err "there is no profile floppy"
  echo 'bs=none' >>w.ini
  want 2 "$artesian" nand run --profile 970pro --workload w.ini
  one_line
  has err "w.ini:7: bs takes a size, not none"
}

scenario_advise() {
  for turn in 1 2 3; do
    printf '{"timestamp": %d, "input_length": %d, "output_length": 9, "hash_ids": [%s]}\n' $((turn * 900)) $((turn * 512)) \
      "$(seq -s, 1 $turn)"
  done >t.jsonl
  printf '[drive]\ncapacity=2G\nfill=0\n[kv]\ntrace=t.jsonl\n' >kv.ini
  printf '[model]\nprefill=1000\nkv_token=1K\nusd_per_hour=1\n' >model.ini
  cat model.ini kv.ini >w.ini
  want 0 "$artesian" nand compare 970pro xlflash-slc --workload w.ini
  has out "first token p50 s"
  has out "USD per M tokens"
  want 0 "$artesian" nand run --profile enterprise-tlc --workload w.ini --json
  has out '"reused_tokens": 1536'
  has out '"blocks_checked": 3'
  want 0 "$artesian" advise --model model.ini --load kv.ini --budget 1000 --years 0.01
  has out "Next better: "
  has out "fits"
  want 1 "$artesian" advise --model model.ini --load kv.ini --budget 1 --json
  has out '"advised": null'
  want 2 "$artesian" advise --model w.ini --load none.ini --budget 1000
  one_line
  has err "none.ini"
  echo '{"timestamp": 1}' >>t.jsonl
  want 2 "$artesian" advise --model model.ini --load kv.ini --budget 1000
  one_line
  has err "t.jsonl: line 4: "
}

scenario_completion() {
  want 0 "$artesian" completion bash
  mv out script
  bash -n script || bad "the script is no bash"
  complete_line() { # words...: prints what would be offered for the last
    bash -c 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _artesian; printf "%s\n" "${COMPREPLY[@]}"' _ "$@"
  }
  complete_line artesian '' >out
  for word in run inspect stat bench store completion --help --version; do has out "$word"; done
  complete_line artesian bench '' >out
  for word in device policy weights; do has out "$word"; done
  complete_line artesian bench device --over >out
  [ "$(cat out)" = --overwrite ] || bad "bench device --over: $(cat out)"
  complete_line artesian run --m >out
  [ "$(sort out | tr '\n' ' ')" = '--memory --mode ' ] || bad "run --m: $(cat out)"
  complete_line artesian stat --w >out
  [ "$(cat out)" = --watch ] || bad "stat --w: $(cat out)"
  complete_line artesian run -- tru >out
  has out "true"
}

scenario_help() {
  want 0 "$artesian" --help
  for command in run inspect stat bench store completion; do
    has out "$command"
  done
  want 0 "$artesian" run --help
  has out "Examples:"
  has out "artesian run --memory 8G -- llama-server"
  want 0 "$artesian" --version
}

if declare -F "scenario_$name" >/dev/null; then "scenario_$name"; else bad "there is no such scenario"; fi
exit $((failures > 0))

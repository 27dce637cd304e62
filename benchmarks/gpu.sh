#!/usr/bin/env bash
# Measures environments, training, scaling and cost of size of all systems on the machine's device
# and writes dated JSON, within a budget of seconds (8 minutes by default), without network.
#
#     benchmarks/gpu.sh [FOLDER]        BUDGET_S=480 PYTHON=python SIZES=full|tiny SYSTEMS="sched2 ..."
#
# A row that does not fit into what is left is skipped, or ended when its time is over, and named in
# FOLDER/summary.txt. Compare two folders with `python -m benchmarks.compare_results OLD NEW`, and with
# the estimates of the compiled programs with
# `python -m benchmarks.compare_results benchmarks/results/kernels_h100.json FOLDER`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
budget=${BUDGET_S:-480}
python=${PYTHON:-python3}
sizes=${SIZES:-full}
systems=${SYSTEMS:-sched2 dl2 chic das mlfs cluster}
folder=${1:-benchmarks/results/gpu_$(date -u +%Y-%m-%d)}
mkdir -p "$folder"
summary=$folder/summary.txt
: >"$summary"

say() { echo "$*" | tee -a "$summary"; }

# row NAME LEAST_S MOST_S ARGUMENT...: a command that writes FOLDER/NAME.json.
row() {
  local name=$1 least=$2 most=$3 left=$((budget - SECONDS)) began=$SECONDS status=0
  shift 3
  if [ "$left" -lt "$least" ]; then
    say "$name: skipped, needs $least s or more and $left s are left"
    return
  fi
  [ "$left" -lt "$most" ] && most=$left
  timeout --signal=INT --kill-after=20 "$most" "$python" -m "$@" --json "$folder/$name.json" >"$folder/$name.log" 2>&1 || status=$?
  case $status in
    0) say "$name: $((SECONDS - began)) s" ;;
    124 | 137) say "$name: ended after $most s$([ -s "$folder/$name.json" ] && echo ', with its rows so far')" ;;
    2) if grep -q "no batch size could be measured" "$folder/$name.log"; then
         say "$name: skipped, its smallest batch would overrun, see $name.log"
       else
         say "$name: failed with exit status 2, see $name.log"
       fi ;;
    *) say "$name: failed with exit status $status, see $name.log" ;;
  esac
}

if [ "$sizes" = tiny ]; then
  throughput=(--batch 4 --repeats 1 --budget 40 --figure environment)
  lowered=()
  training=(--repeats 1 --updates 1 --warm-up 0)
  large=(--set loop.num_envs=32)
  cost=(--quick --sizes 8)
  least=1
  checked=5
else
  throughput=(--repeats 3 --budget 60)
  lowered=(--figure environment --batch 65536 --batch 262144)
  training=(--repeats 3 --updates 5 --warm-up 10)
  large=()
  cost=(--axes cluster --sizes 137,550)
  least=15
  checked=100
fi

throughput() {
  for system in $systems; do
    options=()
    if [ "$sizes" = full ]; then
      case $system in
        das | mlfs) options=(--batch 8192 --figure environment) ;;
        *) options=(--batch 65536 --batch 262144) ;;
      esac
    fi
    [ "$system" = das ] && options+=(--set env.events_per_step=1)
    [ "$system" = mlfs ] && options+=(--set env.slot_every=32)
    row "${system}_throughput" "$least" 150 jaxsched bench throughput --system "$system" \
      "${throughput[@]}" "${options[@]}"
  done
}

# The same environments as every GPU ran them before, and Chic's steps as one kernel.
lowerings() {
  local system
  for system in $systems; do
    case $system in
      sched2 | dl2 | chic) row "${system}_throughput_vmap" "$least" 60 jaxsched bench throughput \
        --system "$system" "${throughput[@]}" "${lowered[@]}" --lowering vmap ;;
    esac
    [ "$system" = chic ] && row chic_throughput_kernel "$least" 60 jaxsched bench throughput \
      --system chic "${throughput[@]}" "${lowered[@]}" --lowering kernel
  done
}

# Rows of training of a preset; DAS, whose actions are no single choice, has no plain ones.
training() {
  local suffix=$1 preset=$2
  shift 2
  for system in $systems; do
    [ "$system" = das ] && [ "$preset" = plain-ppo ] && continue
    row "${system}_$suffix" "$least" 60 jaxsched bench training --system "$system" \
      --preset "$preset" "${training[@]}" "$@"
  done
}

# First of all: does this device compute what a processor does? What was measured last comes last.
row device_check "$least" 120 benchmarks.device_check --systems "${systems// /,}" --steps "$checked"
throughput
lowerings
training gpu_training gpu-ppo "${large[@]}"
if [ "$sizes" = full ] && [[ " $systems " = *" sched2 "* ]]; then
  for preset in search gpu-ppo; do
    row "sched2_time_to_score_$preset" "$least" 90 jaxsched bench training --system sched2 \
      --preset "$preset" --score strict_sif
  done
fi
training training plain-ppo
training gpu_training_float32 gpu-ppo --set precision=float32 "${large[@]}"
for system in $systems; do
  case $system in
    sched2 | dl2 | chic)
      row "${system}_scaling" "$least" 60 jaxsched bench scaling --system "$system" --batch 1024 \
        --repeats 2 --updates 2
      break
      ;;
  esac
done
for system in $systems; do
  row "${system}_cost" "$least" 60 benchmarks.cost_of_size --systems "$system" "${cost[@]}"
done
say "all: $SECONDS s of $budget s"
grep -q failed "$summary" && exit 1
exit 0

#!/usr/bin/env python3
"""Whether `artesian bench device` and fio measure the same: random direct reads of one file by both in turn, with the same
request size, depth and page size. Prints the median of each and of the ratios of the pairs; exit code 1 if a ratio is off
by more than the tolerance. Needs fio (apt-get install fio) and an idle machine; for large pages the machine's administrator
sets some aside for fio: sysctl vm.nr_hugepages=64, and 0 afterwards."""

import argparse
import json
import statistics
import subprocess
import sys


def fio(options: argparse.Namespace, size: int, depth: int) -> float:
    ran = subprocess.run(
        ["fio", "--name=check", f"--filename={options.file}", "--readonly", "--rw=randread", "--direct=1", f"--bs={size}",
         f"--iodepth={depth}", "--mem=" + ("malloc" if options.pages == "small" else "shmhuge"), f"--ioengine={options.engine}", "--time_based", f"--runtime={int(options.seconds * 1000)}ms",
         "--randrepeat=0", "--output-format=json"], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["jobs"][0]["read"]["bw_bytes"]


def artesian(options: argparse.Namespace, size: int, depth: int) -> float:
    pages = ["--small-pages"] if options.pages == "small" else []
    ran = subprocess.run(
        [options.artesian, "bench", "device", options.file, "--request", str(size), "--depth", str(depth), "--seconds",
         str(options.seconds), "--no-register", "--json", *pages], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["best_read"]["bytes_per_second"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example:\n  scripts/fio_check.py build/release/bin/artesian model.gguf")
    parser.add_argument("artesian", help="the program")
    parser.add_argument("file", help="it is only read; larger than any cache of the drive")
    parser.add_argument("--kib", type=int, nargs="+", default=[128, 256, 512, 1024], help="request sizes in KiB")
    parser.add_argument("--depth", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--rounds", type=int, default=9, help="pairs for each point")
    parser.add_argument("--seconds", type=float, default=0.25, help="of each measurement")
    parser.add_argument("--pages", default="large", choices=["large", "small"], help="of the buffers")
    parser.add_argument("--engine", default="io_uring", choices=["io_uring", "libaio"], help="fio's")
    parser.add_argument("--tolerance", type=float, default=5, help="percent")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    worst = 0.0
    print(f"{'KiB':>6}{'depth':>7}{'fio MB/s':>11}{'artesian':>11}{'ratio':>8}   ratios of the pairs")
    for kib in options.kib:
        for depth in options.depth:
            pairs = []
            for turn in range(options.rounds):  # each goes first in turn
                one = [fio, artesian] if turn % 2 == 0 else [artesian, fio]
                figures = {measure: measure(options, kib * 1024, depth) for measure in one}
                pairs.append((figures[fio], figures[artesian]))
            ratios = sorted(ours / theirs for theirs, ours in pairs)
            ratio = statistics.median(ratios)
            worst = max(worst, abs(ratio - 1))
            theirs, ours = (statistics.median(column) / 1e6 for column in zip(*pairs))
            print(f"{kib:>6}{depth:>7}{theirs:>11.0f}{ours:>11.0f}{ratio:>8.3f}   {ratios[0]:.3f} to {ratios[-1]:.3f}", flush=True)
    print(f"worst: {100 * worst:.1f} % off")
    return 1 if 100 * worst > options.tolerance else 0


if __name__ == "__main__":
    sys.exit(main())

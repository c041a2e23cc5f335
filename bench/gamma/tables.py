"""Table 5.1, the loads of figure 5.3 and the correlation: the text's numbers and ours, beside each
other."""

import random
import statistics

# Quantiles of Student's distribution for two-sided intervals of 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306,
           9: 2.262, 10: 2.228, 14: 2.145, 19: 2.093, 29: 2.045}

# Table 5.1 of the text: violations above 5 ms, operations a second, latencies of reads in ms.
TEXT = {
    "off": {"violations": 133, "throughput": 8604, "mean": 9.23, "greatest": 324, "p95": 25.0},
    "gc": {"violations": 31, "throughput": 8584, "mean": 9.33, "greatest": 311, "p95": 25.6,
           "gone": "76.7 %"},
    "heap": {"violations": 2, "throughput": 8586, "mean": 9.38, "greatest": 322, "p95": 25.8,
             "gone": "98.5 %"},
}
NAMES = {"off": "no delay", "gc": "GC notification", "heap": "free heap",
         "pause": "measured pause", "pause-50": "measured pause, 50 ms at most"}


def student(freedom):
    """The quantile, or that of the next smaller degree that is known."""
    return STUDENT[max(known for known in STUDENT if known <= freedom)]


def interval(values):
    """Mean and half the width of its interval of 95 %; None for half of one value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    error = statistics.stdev(values) / len(values) ** 0.5
    return mean, student(len(values) - 1) * error


def gone(without, with_it, rounds=4000):
    """The share of violations that a method removes, with an interval by resampling runs."""
    if sum(without) == 0:
        return None
    chance = random.Random(1)
    share = 1 - statistics.fmean(with_it) / statistics.fmean(without)
    shares = []
    for _ in range(rounds):
        base = statistics.fmean(chance.choices(without, k=len(without)))
        if base > 0:
            shares.append(1 - statistics.fmean(chance.choices(with_it, k=len(with_it))) / base)
    shares.sort()
    return share, shares[int(0.025 * len(shares))], shares[int(0.975 * len(shares)) - 1]


def paired(without, with_it):
    """Relative difference of runs of the same seed, in percent: mean and half an interval."""
    common = sorted(set(without) & set(with_it))
    if not common:
        return None
    return interval([100 * (with_it[seed] / without[seed] - 1) for seed in common])


def shown(pair, digits=1):
    if pair is None:
        return "–"
    mean, half = pair
    if half is None:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def of_modes(results, texts=TEXT):
    """Table 5.1; results are those of one collector and version, by mode, none of them void."""
    lines = [
        "| reads are delayed | violations > 5 ms: text | ours | of them in a pause's shadow |"
        " gone, of all: text | of those: ours | ops/s: text | ours | of the rate that was offered |"
        " without answer | mean read ms: text | ours | 95 %: text | ours |"
        " max: text | ours | processor µs/op | mean read vs. no delay | processor vs. no delay |"
        " processors busy |",
        "|" + " --- |" * 20,
    ]
    base = results.get("off", [])
    for mode in NAMES:
        runs = results.get(mode, [])
        if not runs:
            continue
        text = texts.get(mode, {})

        def cell(name, text=text):
            return str(text.get(name, "–"))

        def ours(pick, digits=1, runs=runs):
            return shown(interval([pick(run) for run in runs]), digits)

        shadowed = [run["correlation"]["in_shadow"] for run in runs]
        away = "–"
        if mode != "off" and base:
            found = gone([run["correlation"]["in_shadow"] for run in base], shadowed)
            if found:
                away = f"{100 * found[0]:.1f} %"
                if len(runs) > 1 and len(base) > 1:
                    away += f" ({100 * found[1]:.1f} to {100 * found[2]:.1f})"

        def against(pick, mode=mode, runs=runs):
            if mode == "off" or not base:
                return "–"
            both = [{run["setup"]["seed"]: pick(run) for run in each} for each in (base, runs)]
            found = paired(*both)
            return "–" if found is None else shown(found) + " %"

        lines.append(
            f"| {NAMES[mode]}, {len(runs)} runs | {cell('violations')} |"
            f" {ours(lambda run: run['correlation']['violations'])} |"
            f" {shown(interval(shadowed))} | {cell('gone')} | {away} | {cell('throughput')} |"
            f" {ours(lambda run: run['throughput'], 0)} |"
            f" {ours(lambda run: 100 * run['throughput'] / run['setup']['rate'])} % |"
            f" {ours(lambda run: run['without_answer'])} | {cell('mean')} |"
            f" {ours(lambda run: run['latencies']['read']['mean_ms'], 2)} | {cell('p95')} |"
            f" {ours(lambda run: run['latencies']['read']['p95_ms'], 2)} | {cell('greatest')} |"
            f" {ours(lambda run: run['latencies']['read']['greatest_ms'], 0)} |"
            f" {ours(lambda run: run['processor_us_per_operation'], 0)} |"
            f" {against(lambda run: run['latencies']['read']['mean_ms'])} |"
            f" {against(lambda run: run['processor_us_per_operation'])} |"
            f" {ours(lambda run: 100 * run['machine_busy'], 0)} % |"
        )
    return "\n".join(lines)


def of_loads(results):
    """Figure 5.3: results without delay, by share of the full rate."""
    lines = [
        "| share of the rate | runs | operations a second | both cores busy | violations > 5 ms |"
        " Γ ms | pauses ≥ 5 ms | longest pause ms |",
        "|" + " --- |" * 8,
    ]
    for share, runs in sorted(results.items()):
        lines.append(
            f"| {share} % | {len(runs)} |"
            f" {shown(interval([run['throughput'] for run in runs]), 0)} |"
            f" {shown(interval([100 * run['machine_busy'] for run in runs]), 0)} % |"
            f" {shown(interval([run['correlation']['violations'] for run in runs]))} |"
            f" {shown(interval([run['gamma_ms'] for run in runs]))} |"
            f" {shown(interval([run['pauses'] for run in runs]))} |"
            f" {shown(interval([run['longest_pause_ms'] for run in runs]))} |"
        )
    return "\n".join(lines)


def by_chance(found):
    """How many violations would begin in a shadow if they came there as often as elsewhere."""
    inside = found["share_of_time_in_shadow"]
    return found["outside"] * inside / (1 - inside) if inside < 1 else float("nan")


def percent(value):
    return "–" if value is None else f"{100 * value:.1f} %"


def of_shares(results):
    """How violations lie to pauses, by mode: the runs of each with their interval."""
    lines = [
        "| reads are delayed | share of violations in a shadow | share of the time | outside, a run"
        " (floor) | in a shadow, a run | of them by chance |",
        "|" + " --- |" * 6,
    ]
    for mode in NAMES:
        found = [run["correlation"] for run in results.get(mode, [])]
        if not found:
            continue

        def cell(name, factor=1, found=found):
            values = [factor * one[name] for one in found if one[name] is not None]
            return shown(interval(values)) if values else "–"

        lines.append(
            f"| {NAMES[mode]}, {len(found)} runs | {cell('share_in_shadow', 100)} % |"
            f" {cell('share_of_time_in_shadow', 100)} % | {cell('outside')} | {cell('in_shadow')} |"
            f" {shown(interval([by_chance(one) for one in found]))} |"
        )
    return "\n".join(lines)


def of_correlation(named):
    """How violations lie to pauses, run by run, and what lies outside: the floor."""
    lines = [
        "| run | pauses ≥ 5 ms | violations > 5 ms | in a shadow | of the time in a shadow |"
        " outside (floor) | in a shadow by chance | not longer than the pause | begin after the"
        " pause's start, median and 95 % | end after its end, median and 95 % | started late |",
        "|" + " --- |" * 11,
    ]

    def both(value):
        return "–" if value is None else f"{value['median']:.0f}, {value['p95']:.0f} ms"

    for name, run in named:
        found = run["correlation"]
        lines.append(
            f"| {name} | {run['pauses']} | {found['violations']} |"
            f" {percent(found['share_in_shadow'])} | {percent(found['share_of_time_in_shadow'])} |"
            f" {found['outside']} | {by_chance(found):.1f} |"
            f" {percent(found['share_not_longer_than_pause'])} |"
            f" {both(found['begins_after_pause_start_ms'])} |"
            f" {both(found['ends_after_pause_end_ms'])} |"
            f" {100 * run['schedule']['late_share']:.2f} % |"
        )
    return "\n".join(lines)

package coeval.cassandra.agent;

import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.LongAccumulator;
import java.util.concurrent.atomic.LongAdder;

/** What the agent has seen and done, counted; and told to the log, which never blocks. */
final class Events {
    private final Log log;
    private final Map<Method, LongAdder> pauses = new EnumMap<>(Method.class);
    private final LongAccumulator longestPause = new LongAccumulator(Long::max, 0);
    final LongAdder reads = new LongAdder();
    final LongAdder readsHeld = new LongAdder();
    final LongAdder heldNanos = new LongAdder();
    final LongAccumulator longestHeldNanos = new LongAccumulator(Long::max, 0);
    final LongAdder readsReleasedEarly = new LongAdder();
    final LongAdder failures = new LongAdder();
    /** Writes of the log that failed; reads are held all the same. */
    final LongAdder logFailures = new LongAdder();

    Events(Log log) {
        this.log = log;
        for (Method method : Method.values()) {
            pauses.put(method, new LongAdder());
        }
    }

    /** A share of a duration; exact up to durations of days. */
    static long percent(long nanos, int percent) {
        return nanos / 100 * percent + nanos % 100 * percent / 100;
    }

    void paused(Method method, long pause, long hold) {
        pauses.get(method).increment();
        longestPause.accumulate(pause);
        log.note(
                String.format(
                        Locale.ROOT,
                        "%s: away for %.1f ms, reads wait for %.1f ms",
                        method.option,
                        pause / 1e6,
                        hold / 1e6));
    }

    void jumped(long bytes, long hold) {
        pauses.get(Method.HEAP).increment();
        log.note(
                String.format(
                        Locale.ROOT,
                        "%s: %.1f MB of heap became free at once, reads wait for %.1f ms",
                        Method.HEAP.option,
                        bytes / 1e6,
                        hold / 1e6));
    }

    void held(long nanos) {
        readsHeld.increment();
        heldNanos.add(nanos);
        longestHeldNanos.accumulate(nanos);
    }

    /** Something went wrong in the agent. The first few times are told in full. */
    void failed(Throwable failure) {
        failures.increment();
        if (failures.sum() <= 5) {
            log.failure("a failure in the agent, and none of the read's", failure);
        }
    }

    long pauses(Method method) {
        return pauses.get(method).sum();
    }

    long longestPauseNanos() {
        return longestPause.get();
    }

    /** One line for the log, of all so far. */
    String summary() {
        return String.format(
                Locale.ROOT,
                "so far: reads %d, held %d for %.1f ms together and %.1f ms at most, released"
                        + " early %d; pauses by pause %d, heap %d, gc %d; failures %d",
                reads.sum(),
                readsHeld.sum(),
                heldNanos.sum() / 1e6,
                longestHeldNanos.get() / 1e6,
                readsReleasedEarly.sum(),
                pauses(Method.PAUSE),
                pauses(Method.HEAP),
                pauses(Method.GC),
                failures.sum());
    }
}

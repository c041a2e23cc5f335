package coeval.cassandra.agent;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Until when reads wait. It only ever moves forward.
 *
 * <p>No hold is longer than the longest that is allowed: after a machine was suspended for an hour,
 * reads must not wait for an hour.
 */
final class HoldWindow {
    private final AtomicLong end;
    private final long longest;

    HoldWindow(long now, long longest) {
        this.end = new AtomicLong(now);
        this.longest = longest;
    }

    /** Lets reads wait for so long from {@code now}; returns how long that is. */
    long extend(long now, long hold) {
        long allowed = Math.min(hold, longest);
        long until = now + allowed;
        long current = end.get();
        while (until - current > 0 && !end.compareAndSet(current, until)) {
            current = end.get();
        }
        return allowed;
    }

    /** Nanoseconds from {@code now} until reads may go on; zero or less outside the window. */
    long left(long now) {
        return end.get() - now;
    }
}

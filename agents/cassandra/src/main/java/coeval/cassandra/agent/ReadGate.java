package coeval.cassandra.agent;

import java.util.List;

/** What each local read passes through: asks the detectors, and waits while a window is open. */
final class ReadGate {
    /** After so many failures the gate stays open: then the agent is of no use, only of cost. */
    static final int MOST_FAILURES = 100;

    private final Clock clock;
    private final HoldWindow window;
    private final List<Detector> detectors;
    private final Events events;
    private final long longestHold;
    private volatile boolean isHolding;

    /**
     * @param longestHold the longest wait of one read, whatever follows the first pause
     * @param isHolding whether reads wait; otherwise pauses are counted only
     */
    ReadGate(
            Clock clock,
            HoldWindow window,
            List<Detector> detectors,
            Events events,
            long longestHold,
            boolean isHolding) {
        this.clock = clock;
        this.window = window;
        this.detectors = detectors;
        this.events = events;
        this.longestHold = longestHold;
        this.isHolding = isHolding;
    }

    boolean isHolding() {
        return isHolding;
    }

    void setHolding(boolean holding) {
        isHolding = holding;
    }

    /** Returns when the read may go on; never throws. */
    void pass() {
        try {
            events.reads.increment();
            if (events.failures.sum() < MOST_FAILURES) {
                waitForTheEnd();
            }
        } catch (Throwable failure) {
            fail(failure);
        }
    }

    private void fail(Throwable failure) {
        try {
            events.failed(failure);
        } catch (Throwable second) {
            // Telling of the failure failed as well, as it may for want of memory. The read
            // matters more than either.
        }
    }

    private void waitForTheEnd() {
        long start = clock.nanos();
        long now = start;
        // A pause during the wait opens a window of its own, so the detectors are asked again.
        while (true) {
            for (Detector detector : detectors) {
                detector.check(now);
            }
            long left = window.left(now);
            if (left <= 0 || !isHolding) {
                break;
            }
            long allowed = longestHold - (now - start);
            // A server that shuts down interrupts its threads: then waiting is over.
            if (allowed <= 0 || Thread.currentThread().isInterrupted()) {
                events.readsReleasedEarly.increment();
                break;
            }
            clock.park(Math.min(left, allowed));
            now = clock.nanos();
        }
        if (now != start) {
            events.held(now - start);
        }
    }
}

package coeval.cassandra.agent;

import java.util.concurrent.atomic.AtomicLong;

/**
 * The method "pause": a thread ticks, and the thread or read that finds the last tick overdue has found a pause.
 *
 * <p>The pause is noticed by the first read after it, not only by the thread: when a process
 * continues, reads run before the ticking thread as often as after it, and a read that had to
 * rely on the thread would pass. So no pause of {@code atLeast} plus one tick can be missed.
 *
 * <pre>
 * ticks   |   |   |                     (|)  the thread, whenever it gets to run
 *                  ····· pause ·····
 * reads                             r        finds the last tick long ago
 *                 ^last              ^now    gap = now − last, at least the pause
 * </pre>
 *
 * <p>It holds for every kind of pause: collections, other safepoints, SIGSTOP, a machine that was
 * suspended without its monotonic clock, processors that were stolen. It holds, too, if only the
 * ticking thread did not get to run: that is indistinguishable, and costs a hold of that length.
 */
final class MeasuredPause implements Detector {
    private final long atLeast;
    private final int holdPercent;
    private final HoldWindow window;
    private final Events events;

    private volatile long last;
    /** The tick after which a pause has been noticed, so that it is counted once. */
    private final AtomicLong noticed;

    MeasuredPause(
            long now, long atLeast, int holdPercent, HoldWindow window, Events events) {
        this.atLeast = atLeast;
        this.holdPercent = holdPercent;
        this.window = window;
        this.events = events;
        this.last = now;
        this.noticed = new AtomicLong(now - 1);
    }

    /** What the ticking thread does. */
    void tick(long now) {
        check(now);
        // After the check: a read that sees this tick sees the window, too.
        last = now;
    }

    @Override
    public void check(long now) {
        long since = last;
        long gap = now - since;
        if (gap < atLeast) {
            return;
        }
        long before = noticed.get();
        if (before == since) {
            return;
        }
        long hold = window.extend(now, Events.percent(gap, holdPercent));
        if (noticed.compareAndSet(before, since)) {
            events.paused(Method.PAUSE, gap, hold);
        }
    }
}

package coeval.cassandra.agent;

import java.util.ArrayList;
import java.util.List;

/** Time that moves only when a test, or a wait, moves it. */
final class FakeClock implements Clock {
    /** Close to the greatest number, as {@link System#nanoTime} may be: it wraps during the tests. */
    long now = Long.MAX_VALUE - 1_000_000;

    /** The waits so far. */
    final List<Long> parks = new ArrayList<>();

    /** What happens during a wait, instead of its whole time going by. */
    Runnable duringPark;

    @Override
    public long nanos() {
        return now;
    }

    @Override
    public void park(long nanos) {
        parks.add(nanos);
        if (duringPark == null) {
            now += nanos;
        } else {
            duringPark.run();
        }
    }

    static long ms(long millis) {
        return millis * 1_000_000;
    }
}

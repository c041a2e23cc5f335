package coeval.cassandra.agent;

import java.util.concurrent.locks.LockSupport;

/** Monotonic time and waiting, so that tests can count steps instead. */
interface Clock {
    /** Nanoseconds from an arbitrary origin; compare by difference only. */
    long nanos();

    /** Waits, for at most this long; may return early. */
    void park(long nanos);

    /** The clock of this machine. */
    Clock MACHINE =
            new Clock() {
                @Override
                public long nanos() {
                    return System.nanoTime();
                }

                @Override
                public void park(long nanos) {
                    LockSupport.parkNanos(this, nanos);
                }
            };
}

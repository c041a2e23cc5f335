package coeval.cassandra.agent;

import java.io.IOException;
import java.util.concurrent.TimeUnit;

/** The thread that writes the log, and a summary at times, if reads were held since the last. */
final class ReportThread extends Thread {
    private static final long DRAIN_EVERY_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final Log log;
    private final Events events;
    private final long every;
    private final Clock clock;
    private long heldAtLast;

    ReportThread(Log log, Events events, long every, Clock clock) {
        super("coeval-read-hold-log");
        setDaemon(true);
        this.log = log;
        this.events = events;
        this.every = every;
        this.clock = clock;
    }

    @Override
    public void run() {
        Runtime.getRuntime().addShutdownHook(new Thread(this::sayGoodbye, getName() + "-end"));
        long last = clock.nanos();
        while (!isInterrupted()) {
            clock.park(DRAIN_EVERY_NANOS);
            long now = clock.nanos();
            if (now - last >= every) {
                last = now;
                report();
            }
            drain();
        }
    }

    /** Queues a summary if it would not repeat the one before. */
    void report() {
        long held = events.readsHeld.sum();
        if (held != heldAtLast) {
            heldAtLast = held;
            log.note(events.summary());
        }
    }

    private void sayGoodbye() {
        log.note(events.summary());
        drain();
    }

    private void drain() {
        try {
            log.drain();
        } catch (IOException failure) {
            // A full disk must neither end the thread nor the holding of reads; the bean still
            // tells of everything.
            events.logFailures.increment();
        }
    }
}

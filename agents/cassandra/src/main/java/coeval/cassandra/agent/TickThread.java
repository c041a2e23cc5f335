package coeval.cassandra.agent;

/** The thread that ticks for {@link MeasuredPause}. */
final class TickThread extends Thread {
    private final MeasuredPause ticks;
    private final long interval;
    private final Clock clock;

    TickThread(MeasuredPause ticks, long interval, Clock clock) {
        super("coeval-read-hold-tick");
        setDaemon(true);
        // Where the virtual machine heeds priorities, a tick is late for want of a processor less
        // often.
        setPriority(MAX_PRIORITY);
        this.ticks = ticks;
        this.interval = interval;
        this.clock = clock;
    }

    @Override
    public void run() {
        while (!isInterrupted()) {
            ticks.tick(clock.nanos());
            clock.park(interval);
        }
    }
}

package coeval.cassandra.agent;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The bean of an agent that is at work. */
final class ReadHoldBean implements ReadHoldMXBean {
    private final Options options;
    private final ReadGate gate;
    private final Events events;
    private final Advising advising;

    ReadHoldBean(Options options, ReadGate gate, Events events, Advising advising) {
        this.options = options;
        this.gate = gate;
        this.events = events;
        this.advising = advising;
    }

    @Override
    public String getState() {
        if (events.failures.sum() >= ReadGate.MOST_FAILURES) {
            return "given up after " + ReadGate.MOST_FAILURES + " failures: reads are not held";
        }
        return "at work";
    }

    @Override
    public String getOptions() {
        return options.toString();
    }

    @Override
    public List<String> getAdvisedMethods() {
        List<String> advised = new ArrayList<>(advising.advised());
        Collections.sort(advised);
        return advised;
    }

    @Override
    public boolean isHolding() {
        return gate.isHolding();
    }

    @Override
    public void setHolding(boolean holding) {
        gate.setHolding(holding);
    }

    @Override
    public long getReads() {
        return events.reads.sum();
    }

    @Override
    public long getReadsHeld() {
        return events.readsHeld.sum();
    }

    @Override
    public double getHeldMillis() {
        return events.heldNanos.sum() / 1e6;
    }

    @Override
    public double getLongestHeldMillis() {
        return events.longestHeldNanos.get() / 1e6;
    }

    @Override
    public long getReadsReleasedEarly() {
        return events.readsReleasedEarly.sum();
    }

    @Override
    public long getMeasuredPauses() {
        return events.pauses(Method.PAUSE);
    }

    @Override
    public long getHeapJumps() {
        return events.pauses(Method.HEAP);
    }

    @Override
    public long getGcNotifications() {
        return events.pauses(Method.GC);
    }

    @Override
    public double getLongestPauseMillis() {
        return events.longestPauseNanos() / 1e6;
    }

    @Override
    public long getLogFailures() {
        return events.logFailures.sum();
    }

    @Override
    public long getFailures() {
        return events.failures.sum();
    }
}

package coeval.cassandra.agent;

import java.util.List;

/** What the agent says about itself by JMX, as {@code coeval.cassandra:type=ReadHold}. */
public interface ReadHoldMXBean {
    /** Whether the agent is at work, or why it changes nothing. */
    String getState();

    /** The options in force, as the agent's argument would say them. */
    String getOptions();

    /** The methods of Cassandra that have been advised; they are as their classes are loaded. */
    List<String> getAdvisedMethods();

    /** Whether reads wait after a pause; otherwise pauses are counted only. */
    boolean isHolding();

    /** Switches the waiting on or off until the process ends. */
    void setHolding(boolean holding);

    /** Local reads since the start. */
    long getReads();

    /** Local reads that had to wait. */
    long getReadsHeld();

    /** Milliseconds that all reads together have waited. */
    double getHeldMillis();

    /** The longest wait of one read, in milliseconds. */
    double getLongestHeldMillis();

    /** Reads that went on before the window had ended: the longest hold was over, or an interrupt. */
    long getReadsReleasedEarly();

    /** Pauses that were measured, by the method "pause". */
    long getMeasuredPauses();

    /** Jumps of the free heap, by the method "heap". */
    long getHeapJumps();

    /** Collections that were reported, by the method "gc". */
    long getGcNotifications();

    /** The longest pause by the methods "pause" and "gc", in milliseconds. */
    double getLongestPauseMillis();

    /** Writes of the agent's log that failed. */
    long getLogFailures();

    /** Failures inside the agent. None of them failed a read. */
    long getFailures();
}

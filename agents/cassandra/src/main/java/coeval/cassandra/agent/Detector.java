package coeval.cassandra.agent;

/** A method of finding out that this process was paused, asked before each read. */
interface Detector {
    /**
     * Extends the hold window if a pause is noticed at {@code now}. Called by many threads at once.
     *
     * <p>Invariant: the window is extended before the pause is marked as noticed. Otherwise a
     * second read, which finds the pause noticed, could pass before the window is there.
     */
    void check(long now);
}

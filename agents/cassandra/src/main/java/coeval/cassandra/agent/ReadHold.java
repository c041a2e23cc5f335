package coeval.cassandra.agent;

/**
 * What the advised methods call. Public, because they are in packages of Cassandra; one for the
 * process, because they have nothing else to find it by.
 */
public final class ReadHold {
    private static volatile ReadGate gate;

    private ReadHold() {}

    /** Waits while reads are held; never throws. */
    public static void beforeRead() {
        ReadGate current = gate;
        if (current != null) {
            current.pass();
        }
    }

    static void install(ReadGate installed) {
        gate = installed;
    }
}

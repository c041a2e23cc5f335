package coeval.cassandra.agent;

/** How a pause is found out. */
enum Method {
    /** A tick is overdue. */
    PAUSE("pause"),
    /** The free heap grew at once. */
    HEAP("heap"),
    /** A collector's bean reported a collection. */
    GC("gc");

    final String option;

    Method(String option) {
        this.option = option;
    }
}

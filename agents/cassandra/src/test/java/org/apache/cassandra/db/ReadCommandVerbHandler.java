package org.apache.cassandra.db;

import org.apache.cassandra.net.IVerbHandler;

/** Stands in for Cassandra's class of this name. */
public class ReadCommandVerbHandler implements IVerbHandler<String> {
    public int reads;

    @Override
    public void doVerb(String message) {
        reads++;
    }

    /** Of the same name, and no read. */
    public void doVerb(String message, int times) {
        reads += times;
    }
}

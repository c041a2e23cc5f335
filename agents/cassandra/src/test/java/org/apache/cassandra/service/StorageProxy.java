package org.apache.cassandra.service;

/** Stands in for Cassandra's class of this name. */
public class StorageProxy {
    abstract static class DroppableRunnable implements Runnable {
        @Override
        public final void run() {
            runMayThrow();
        }

        abstract void runMayThrow();
    }

    /** A local read. */
    public static class LocalReadRunnable extends DroppableRunnable {
        public int reads;

        @Override
        protected void runMayThrow() {
            reads++;
        }
    }
}

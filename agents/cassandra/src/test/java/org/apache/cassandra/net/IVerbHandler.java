package org.apache.cassandra.net;

/** Stands in for Cassandra's; generic in the message, so that handlers get a bridge method. */
public interface IVerbHandler<M> {
    void doVerb(M message);
}

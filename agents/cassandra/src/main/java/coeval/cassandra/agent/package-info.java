/**
 * A Java agent that keeps a Cassandra node from answering reads with what it knew before it was
 * paused.
 *
 * <p>A replica whose process was stopped (garbage collection, another safepoint, SIGSTOP, a
 * processor that the hypervisor took away) wakes up with a backlog of writes that the other
 * replicas have applied and acknowledged. At consistency level ONE it answers reads at once all
 * the same, as stale as the pause was long: a consistency spike. If local reads wait for about as
 * long as the pause was, the backlog is applied first.
 *
 * <pre>
 * Agent          premain: options, log, inspection of the classes, advice, detectors
 *   Inspection     are the two methods there? Otherwise nothing is changed
 *   Advising       weaves ReadAdvice into them as they are loaded
 *     ReadAdvice     calls ReadHold.beforeRead()
 *       ReadGate       asks the detectors, then waits until the HoldWindow is over
 *         MeasuredPause   the method "pause": ticks that are overdue
 *         HeapJump        the method "heap": free heap that grew at once
 *         GcNotifications the method "gc": what the collectors' beans report
 * </pre>
 *
 * <p>Two rules hold everywhere. The agent fails open: whatever goes wrong in it, the read goes on
 * as if it were not there. And it changes either both methods or neither, because a node half of
 * whose reads wait looks protected and is not.
 */
package coeval.cassandra.agent;

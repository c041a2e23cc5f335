package coeval.cassandra.agent;

import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * The method "heap": reads compare the free heap with what it was at the read before; much more
 * of it at once is what a collection leaves behind.
 *
 * <p>Free is counted from the largest heap that is allowed, so that a heap that grows is no jump.
 * The length of the pause is not known, so the hold is of a fixed length.
 */
final class HeapJump implements Detector {
    private final long jumpBytes;
    private final long hold;
    private final LongSupplier freeBytes;
    private final HoldWindow window;
    private final Events events;
    private final AtomicLong last;

    HeapJump(
            long jumpBytes, long hold, LongSupplier freeBytes, HoldWindow window, Events events) {
        this.jumpBytes = jumpBytes;
        this.hold = hold;
        this.freeBytes = freeBytes;
        this.window = window;
        this.events = events;
        this.last = new AtomicLong(freeBytes.getAsLong());
    }

    /** The free heap of this virtual machine. */
    static LongSupplier ofThisProcess() {
        Runtime runtime = Runtime.getRuntime();
        return () -> runtime.maxMemory() - runtime.totalMemory() + runtime.freeMemory();
    }

    @Override
    public void check(long now) {
        long before = last.get();
        long free = freeBytes.getAsLong();
        long jump = free - before;
        boolean isJump = jump >= jumpBytes;
        long allowed = isJump ? window.extend(now, hold) : 0;
        // A read that was itself stopped between the two lines above must not put the old
        // value back: then the next read would see the same jump again.
        if (last.compareAndSet(before, free) && isJump) {
            events.jumped(jump, allowed);
        }
    }
}

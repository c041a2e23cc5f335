package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class HeapJumpTest {
    private static final long MB = 1_000_000;

    private Fixture fixture;
    private long free = 500 * MB;
    private HeapJump jumps;

    @BeforeEach
    void begin() throws IOException {
        fixture = new Fixture();
        jumps = new HeapJump(100 * MB, ms(50), () -> free, fixture.window, fixture.events);
    }

    @AfterEach
    void end() throws IOException {
        fixture.close();
    }

    private void readWith(long megabytes) {
        free = megabytes * MB;
        jumps.check(fixture.clock.now);
    }

    private long left() {
        return fixture.window.left(fixture.clock.now);
    }

    @Test
    void allocationIsNoJump() {
        readWith(400);
        readWith(100);
        assertEquals(0, left());
    }

    @Test
    void aCollectionIsOne() throws IOException {
        readWith(300);
        readWith(400);
        assertEquals(ms(50), left());
        assertEquals(1, fixture.events.pauses(Method.HEAP));
        assertTrue(fixture.logged().contains("heap: 100.0 MB of heap became free"));
    }

    @Test
    void lessThanTheThresholdIsNone() {
        readWith(300);
        readWith(399);
        readWith(498);
        assertEquals(0, left());
        assertEquals(0, fixture.events.pauses(Method.HEAP));
    }

    @Test
    void aJumpIsSeenOnce() {
        readWith(100);
        readWith(400);
        fixture.clock.now += ms(10);
        readWith(399);
        assertEquals(ms(40), left());
        assertEquals(1, fixture.events.pauses(Method.HEAP));
    }

    /** A thread that was stopped by the collection after it had looked at the heap. */
    @Test
    void aReadThatWasOvertakenDoesNotBringTheOldHeapBack() {
        readWith(100);
        Deque<Runnable> meanwhile = new ArrayDeque<>();
        jumps =
                new HeapJump(
                        100 * MB,
                        ms(50),
                        () -> {
                            long seen = free;
                            if (!meanwhile.isEmpty()) {
                                meanwhile.pop().run();
                            }
                            return seen;
                        },
                        fixture.window,
                        fixture.events);
        meanwhile.push(() -> readWith(400));
        readWith(90);
        assertEquals(1, fixture.events.pauses(Method.HEAP));
        readWith(395);
        assertEquals(1, fixture.events.pauses(Method.HEAP), "the same jump is not seen again");
    }

    @Test
    void theHeapOfThisProcessIsKnown() {
        long seen = HeapJump.ofThisProcess().getAsLong();
        assertTrue(seen > 0 && seen <= Runtime.getRuntime().maxMemory(), () -> "" + seen);
    }
}

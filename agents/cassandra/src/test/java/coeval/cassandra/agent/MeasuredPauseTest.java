package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class MeasuredPauseTest {
    private Fixture fixture;
    private FakeClock clock;
    private MeasuredPause pauses;

    @BeforeEach
    void begin() throws IOException {
        fixture = new Fixture();
        clock = fixture.clock;
        pauses = new MeasuredPause(clock.now, ms(5), 100, fixture.window, fixture.events);
    }

    @AfterEach
    void end() throws IOException {
        fixture.close();
    }

    private void tickAfter(long nanos) {
        clock.now += nanos;
        pauses.tick(clock.now);
    }

    private void readAfter(long nanos) {
        clock.now += nanos;
        pauses.check(clock.now);
    }

    private long left() {
        return Math.max(0, fixture.window.left(clock.now));
    }

    private long counted() {
        return fixture.events.pauses(Method.PAUSE);
    }

    @Test
    void ticksInTimeAreNoPause() {
        for (int tick = 0; tick < 100; tick++) {
            tickAfter(ms(2));
            readAfter(ms(1));
            clock.now += ms(1);
        }
        assertEquals(0, counted());
        assertEquals(0, left());
    }

    @Test
    void aReadThatRunsBeforeTheTickingThreadNoticesThePause() {
        tickAfter(ms(2));
        readAfter(ms(200));
        assertEquals(ms(200), left());
        assertEquals(1, counted());
    }

    @Test
    void theTickingThreadNoticesItIfNoReadDoes() {
        tickAfter(ms(200));
        assertEquals(ms(200), left());
        readAfter(ms(1));
        assertEquals(ms(199), left(), "the read finds the window");
        assertEquals(1, counted());
    }

    @Test
    void aPauseIsCountedOnceAndDoesNotGrow() {
        readAfter(ms(200));
        readAfter(ms(20));
        tickAfter(ms(1));
        assertEquals(1, counted());
        assertEquals(ms(179), left(), "later reads do not extend the window of the same pause");
    }

    @Test
    void theNextPauseIsAnotherOne() {
        tickAfter(ms(200));
        tickAfter(ms(2));
        readAfter(ms(300));
        assertEquals(2, counted());
        assertEquals(ms(300), left());
    }

    @Test
    void theThresholdIsTheFirstPause() {
        readAfter(ms(5) - 1);
        assertEquals(0, counted());
        readAfter(1);
        assertEquals(1, counted());
    }

    @Test
    void theHoldIsAShareOfThePause() {
        pauses = new MeasuredPause(clock.now, ms(5), 150, fixture.window, fixture.events);
        readAfter(ms(200));
        assertEquals(ms(300), left());
    }

    @Test
    void theLogSaysHowLong() throws IOException {
        readAfter(ms(200));
        assertTrue(
                fixture.logged().contains("pause: away for 200.0 ms, reads wait for 200.0 ms"),
                fixture.logged());
    }
}

package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class HoldWindowTest {
    @Test
    void beginsClosedAndOnlyMovesForward() {
        HoldWindow window = new HoldWindow(0, ms(100));
        assertEquals(0, window.left(0));
        assertEquals(ms(50), window.extend(0, ms(50)));
        window.extend(ms(10), ms(5));
        assertEquals(ms(40), window.left(ms(10)), "a shorter hold does not end a longer one");
        window.extend(ms(20), ms(90));
        assertEquals(ms(90), window.left(ms(20)));
    }

    @Test
    void noHoldIsLongerThanTheLongest() {
        HoldWindow window = new HoldWindow(0, ms(100));
        assertEquals(ms(100), window.extend(0, ms(3_600_000)));
        assertEquals(ms(100), window.left(0));
    }

    @Test
    void survivesAClockThatWraps() {
        long now = Long.MAX_VALUE - 10;
        HoldWindow window = new HoldWindow(now, ms(100));
        window.extend(now, ms(50));
        assertEquals(ms(50), window.left(now));
        assertEquals(ms(49), window.left(now + ms(1)));
    }
}

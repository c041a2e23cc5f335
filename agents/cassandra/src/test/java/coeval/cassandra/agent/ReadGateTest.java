package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ReadGateTest {
    private Fixture fixture;
    private FakeClock clock;
    private HoldWindow window;

    @BeforeEach
    void begin() throws IOException {
        fixture = new Fixture();
        clock = fixture.clock;
        window = fixture.window;
    }

    @AfterEach
    void end() throws IOException {
        Thread.interrupted();
        fixture.close();
    }

    private long held() {
        return fixture.events.readsHeld.sum();
    }

    @Test
    void outsideAWindowReadsGoOn() {
        fixture.gate().pass();
        assertEquals(List.of(), clock.parks);
        assertEquals(1, fixture.events.reads.sum());
        assertEquals(0, held());
    }

    @Test
    void insideAWindowTheyWaitForItsEnd() {
        window.extend(clock.now, ms(80));
        clock.now += ms(30);
        fixture.gate().pass();
        assertEquals(List.of(ms(50)), clock.parks);
        assertEquals(1, held());
        assertEquals(ms(50), fixture.events.heldNanos.sum());
        assertEquals(ms(50), fixture.events.longestHeldNanos.get());
    }

    @Test
    void theDetectorsAreAskedBeforeTheWindow() {
        fixture.gate(now -> window.extend(now, clock.parks.isEmpty() ? ms(7) : 0)).pass();
        assertEquals(List.of(ms(7)), clock.parks);
    }

    @Test
    void aWaitThatReturnsEarlyIsGoneOnWith() {
        window.extend(clock.now, ms(80));
        clock.duringPark = () -> clock.now += ms(30);
        fixture.gate().pass();
        assertEquals(List.of(ms(80), ms(50), ms(20)), clock.parks);
    }

    @Test
    void aPauseDuringTheWaitIsHeldForToo() {
        MeasuredPause pauses =
                new MeasuredPause(clock.now, ms(5), 100, window, fixture.events);
        clock.now += ms(50);
        // The wait of 50 ms ends 250 ms later: the process was stopped, and no tick came.
        clock.duringPark =
                () -> {
                    if (clock.parks.size() == 1) {
                        pauses.tick(clock.now);
                        clock.now += ms(250);
                    } else {
                        pauses.tick(clock.now);
                        clock.now += ms(1);
                    }
                };
        fixture.gate(pauses).pass();
        assertEquals(2, fixture.events.pauses(Method.PAUSE));
        assertEquals(ms(500), fixture.events.heldNanos.sum());
    }

    @Test
    void noReadWaitsLongerThanTheLongestHold() {
        clock.duringPark =
                () -> {
                    clock.now += ms(300);
                    window.extend(clock.now, ms(900));
                };
        window.extend(clock.now, ms(900));
        fixture.gate().pass();
        assertEquals(List.of(ms(900), ms(700), ms(400), ms(100)), clock.parks);
        assertEquals(1, fixture.events.readsReleasedEarly.sum());
    }

    @Test
    void anInterruptEndsTheWaitAndStays() {
        window.extend(clock.now, ms(80));
        Thread.currentThread().interrupt();
        fixture.gate().pass();
        assertEquals(List.of(), clock.parks);
        assertTrue(Thread.currentThread().isInterrupted(), "the interrupt is the server's to see");
        assertEquals(1, fixture.events.readsReleasedEarly.sum());
    }

    @Test
    void aGateThatDoesNotHoldCountsPausesOnly() {
        ReadGate gate =
                fixture.gate(
                        new MeasuredPause(clock.now, ms(5), 100, window, fixture.events));
        gate.setHolding(false);
        clock.now += ms(100);
        gate.pass();
        assertEquals(List.of(), clock.parks);
        assertEquals(1, fixture.events.pauses(Method.PAUSE));
        assertEquals(0, held());
        gate.setHolding(true);
        gate.pass();
        assertEquals(1, held(), "the window was there all along");
    }

    @Test
    void aFailureNeverReachesTheRead() throws IOException {
        ReadGate gate =
                fixture.gate(
                        now -> {
                            throw new IllegalStateException("planted");
                        });
        gate.pass();
        assertEquals(1, fixture.events.failures.sum());
        assertTrue(fixture.logged().contains("planted"), fixture.logged());
    }

    @Test
    void neitherDoesAnErrorOfTheVirtualMachine() {
        fixture.gate(
                        now -> {
                            throw new OutOfMemoryError("planted");
                        })
                .pass();
        assertEquals(1, fixture.events.failures.sum());
    }

    @Test
    void afterManyFailuresTheGateStaysOpen() {
        int[] asked = {0};
        ReadGate gate =
                fixture.gate(
                        now -> {
                            asked[0]++;
                            throw new IllegalStateException("planted");
                        });
        for (int read = 0; read < 10 * ReadGate.MOST_FAILURES; read++) {
            gate.pass();
        }
        assertEquals(ReadGate.MOST_FAILURES, asked[0]);
        assertFalse(fixture.events.summary().contains("failures 0"));
    }
}

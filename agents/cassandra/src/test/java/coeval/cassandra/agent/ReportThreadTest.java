package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Test;

class ReportThreadTest {
    @Test
    void aSummaryIsWrittenIfReadsWereHeldSinceTheLast() throws IOException {
        try (Fixture fixture = new Fixture()) {
            ReportThread reports =
                    new ReportThread(fixture.log, fixture.events, ms(1), fixture.clock);
            reports.report();
            assertEquals("", fixture.logged());
            fixture.events.held(ms(20));
            reports.report();
            reports.report();
            String logged = fixture.logged();
            assertEquals(1, logged.lines().count(), logged);
            assertTrue(logged.contains("held 1 for 20.0 ms together and 20.0 ms at most"), logged);
        }
    }
}

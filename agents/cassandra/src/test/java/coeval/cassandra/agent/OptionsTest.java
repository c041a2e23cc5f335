package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.EnumSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.NullAndEmptySource;

class OptionsTest {
    @ParameterizedTest
    @NullAndEmptySource
    void withoutOptionsPausesAreMeasured(String text) throws Options.Refused {
        Options options = Options.parse(text);
        assertEquals(EnumSet.of(Method.PAUSE), options.methods());
        assertTrue(options.isHolding());
        assertEquals(ms(2), options.pauseTickNanos());
        assertEquals(ms(5), options.pauseAtLeastNanos());
        assertEquals(100_000_000, options.heapJumpBytes());
        assertEquals(ms(50), options.heapHoldNanos());
        assertEquals(ms(1_000), options.longestHoldNanos());
    }

    @Test
    void everyOptionIsHeeded() throws Options.Refused {
        String text =
                "method=pause+heap+gc,hold=no,log=elsewhere.log,pause-tick-ms=1,"
                        + "pause-at-least-ms=9,pause-hold-percent=150,heap-jump-mb=64,"
                        + "heap-hold-ms=70,gc-hold-percent=200,longest-hold-ms=400,"
                        + "report-every-s=7,log-at-most-mb=3";
        Options options = Options.parse(text);
        assertEquals(EnumSet.allOf(Method.class), options.methods());
        assertFalse(options.isHolding());
        assertEquals("elsewhere.log", options.logFile());
        assertEquals(ms(1), options.pauseTickNanos());
        assertEquals(ms(9), options.pauseAtLeastNanos());
        assertEquals(150, options.pauseHoldPercent());
        assertEquals(64_000_000, options.heapJumpBytes());
        assertEquals(ms(70), options.heapHoldNanos());
        assertEquals(200, options.gcHoldPercent());
        assertEquals(ms(400), options.longestHoldNanos());
        assertEquals(ms(7_000), options.reportEveryNanos());
        assertEquals(3_000_000, options.logAtMostBytes());
        assertEquals(text, options.toString(), "said again, they are the same");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "method                            | not of the form name=value",
                "method=pause,                     | not of the form name=value",
                "method=cms                        | not 'cms'",
                "method=                           | not ''",
                "method=pause+                     | not 'pause+'",
                "hold=maybe                        | yes or no, and not 'maybe'",
                "heap-hold-ms=50ms                 | a whole number, and not '50ms'",
                "heap-hold-ms=0                    | from 1 to 60000, and not 0",
                "longest-hold-ms=99999999999       | a whole number, and not '99999999999'",
                "longest-hold-ms=-1                | from 1 to 60000, and not -1",
                "heap-hold=50                      | no option 'heap-hold'",
                "heap-hold-ms=50,heap-hold-ms=60   | there twice",
                "log=                              | names no file",
                "pause-tick-ms=3,pause-at-least-ms=5 | at least twice pause-tick-ms (3)",
            })
    void whatIsNotUnderstoodIsRefusedInWords(String text, String reason) {
        Options.Refused refused =
                assertThrows(Options.Refused.class, () -> Options.parse(text));
        assertTrue(refused.getMessage().contains(reason), refused.getMessage());
    }

    @Test
    void theLogLiesBesideThoseOfCassandra() throws Options.Refused {
        String before = System.getProperty("cassandra.logdir");
        try {
            System.setProperty("cassandra.logdir", "logs");
            assertEquals("logs/coeval-read-hold.log", Options.parse("").logFile());
            System.clearProperty("cassandra.logdir");
            assertEquals("coeval-read-hold.log", Options.parse("").logFile());
        } finally {
            if (before != null) {
                System.setProperty("cassandra.logdir", before);
            }
        }
    }
}

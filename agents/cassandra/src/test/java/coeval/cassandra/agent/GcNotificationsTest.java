package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.GarbageCollectionNotificationInfo;
import java.io.IOException;
import javax.management.Notification;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class GcNotificationsTest {
    private Fixture fixture;
    private GcNotifications notifications;

    @BeforeEach
    void begin() throws IOException {
        fixture = new Fixture();
        notifications = new GcNotifications(fixture.clock, 100, fixture.window, fixture.events);
    }

    @AfterEach
    void end() throws IOException {
        fixture.close();
    }

    private long left() {
        return fixture.window.left(fixture.clock.now);
    }

    @Test
    void readsWaitAsLongAsTheCollectionTookFromTheReportOn() {
        notifications.collected(80);
        assertEquals(ms(80), left());
        assertEquals(1, fixture.events.pauses(Method.GC));
    }

    @Test
    void aCollectionOfNoMillisecondsIsNone() {
        notifications.collected(0);
        assertEquals(0, left());
        assertEquals(0, fixture.events.pauses(Method.GC));
    }

    @Test
    void concurrentCyclesAreNoPauses() {
        assertTrue(GcNotifications.reportsPauses("G1 Young Generation"));
        assertTrue(GcNotifications.reportsPauses("G1 Old Generation"));
        assertTrue(GcNotifications.reportsPauses("PS MarkSweep"));
        assertTrue(GcNotifications.reportsPauses("ParNew"));
        assertTrue(GcNotifications.reportsPauses("ZGC Pauses"));
        assertFalse(GcNotifications.reportsPauses("ZGC Cycles"));
        assertFalse(GcNotifications.reportsPauses("Shenandoah Cycles"));
        assertFalse(GcNotifications.reportsPauses("G1 Concurrent GC"));
        assertFalse(GcNotifications.reportsPauses("ConcurrentMarkSweep"));
    }

    @Test
    void thisVirtualMachineHasACollectorToListenTo() {
        assertTrue(notifications.listen() > 0);
    }

    @Test
    void aReportThatIsNotUnderstoodThrowsNothing() {
        notifications.handleNotification(new Notification("other", this, 1), null);
        assertEquals(0, fixture.events.failures.sum());
        String kind = GarbageCollectionNotificationInfo.GARBAGE_COLLECTION_NOTIFICATION;
        notifications.handleNotification(new Notification(kind, this, 2), null);
        assertEquals(1, fixture.events.failures.sum());
        assertEquals(0, left());
    }
}

package coeval.cassandra.agent;

import com.sun.management.GarbageCollectionNotificationInfo;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import javax.management.Notification;
import javax.management.NotificationEmitter;
import javax.management.NotificationListener;
import javax.management.openmbean.CompositeData;

/**
 * The method "gc": the collectors' management beans report each collection and how long it took,
 * and reads wait that long from then on.
 *
 * <p>The report comes from a thread of the virtual machine some time after the pause is over;
 * reads that run before it are not held. And it knows of collections only, in milliseconds.
 */
final class GcNotifications implements NotificationListener {
    private final Clock clock;
    private final int holdPercent;
    private final HoldWindow window;
    private final Events events;

    GcNotifications(
            Clock clock, int holdPercent, HoldWindow window, Events events) {
        this.clock = clock;
        this.holdPercent = holdPercent;
        this.window = window;
        this.events = events;
    }

    /** Listens to every collector whose reports are of pauses; returns how many those are. */
    int listen() {
        int listening = 0;
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            if (bean instanceof NotificationEmitter && reportsPauses(bean.getName())) {
                ((NotificationEmitter) bean).addNotificationListener(this, null, null);
                listening++;
            }
        }
        return listening;
    }

    /** Whether a bean's durations are pauses; those of concurrent cycles are not. */
    static boolean reportsPauses(String bean) {
        return !bean.contains("Cycles")
                && !bean.contains("Concurrent GC")
                && !bean.equals("ConcurrentMarkSweep");
    }

    @Override
    public void handleNotification(Notification notification, Object handback) {
        try {
            String kind = GarbageCollectionNotificationInfo.GARBAGE_COLLECTION_NOTIFICATION;
            if (kind.equals(notification.getType())) {
                CompositeData data = (CompositeData) notification.getUserData();
                collected(GarbageCollectionNotificationInfo.from(data).getGcInfo().getDuration());
            }
        } catch (Throwable failure) {
            events.failed(failure);
        }
    }

    /** A collection of this length was reported. */
    void collected(long millis) {
        long pause = TimeUnit.MILLISECONDS.toNanos(millis);
        if (pause > 0) {
            long hold = window.extend(clock.nanos(), Events.percent(pause, holdPercent));
            events.paused(Method.GC, pause, hold);
        }
    }
}

package coeval.cassandra.agent;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import javax.management.JMException;
import javax.management.ObjectName;

/** Where the virtual machine starts the agent. Nothing that goes wrong here stops Cassandra. */
public final class Agent {
    /** The name of {@link ReadHoldMXBean}. */
    static final String BEAN = "coeval.cassandra:type=ReadHold";

    private Agent() {}

    /** Called by the virtual machine before the program's main method. */
    public static void premain(String argument, Instrumentation instrumentation) {
        try {
            start(argument, instrumentation);
        } catch (Throwable failure) {
            complain("it changes nothing, as it could not start: " + failure);
        }
    }

    private static void start(String argument, Instrumentation instrumentation)
            throws IOException, JMException {
        Options options;
        try {
            options = Options.parse(argument);
        } catch (Options.Refused refused) {
            String reason = "it changes nothing: " + refused.getMessage();
            complain(reason);
            // The log that the options name may be what is wrong, so this is the usual one.
            try (Log log = new Log(Options.usualLogFile(), Long.MAX_VALUE)) {
                log.note(reason);
            }
            return;
        }
        Log log = new Log(options.logFile(), options.logAtMostBytes());
        List<String> missing = Inspection.missing(ClassLoader.getSystemClassLoader());
        missing.addAll(Inspection.loaded(instrumentation.getAllLoadedClasses()));
        if (!missing.isEmpty()) {
            String reason = "it changes nothing: " + String.join("; ", missing);
            complain(reason);
            log.note(reason);
            log.close();
            return;
        }
        Clock clock = Clock.MACHINE;
        Events events = new Events(log);
        HoldWindow window = new HoldWindow(clock.nanos(), options.longestHoldNanos());
        List<Detector> detectors = new ArrayList<>();
        MeasuredPause ticks = null;
        for (Method method : options.methods()) {
            switch (method) {
                case PAUSE:
                    ticks = measuredPause(options, clock, window, events);
                    detectors.add(ticks);
                    break;
                case HEAP:
                    detectors.add(
                            new HeapJump(
                                    options.heapJumpBytes(),
                                    options.heapHoldNanos(),
                                    HeapJump.ofThisProcess(),
                                    window,
                                    events));
                    break;
                case GC:
                    int beans =
                            new GcNotifications(
                                            clock,
                                            options.gcHoldPercent(),
                                            window,
                                            events)
                                    .listen();
                    log.note("listening to " + beans + " collectors");
                    break;
            }
        }
        ReadGate gate =
                new ReadGate(
                        clock,
                        window,
                        detectors,
                        events,
                        options.longestHoldNanos(),
                        options.isHolding());
        Advising advising = new Advising(log, events);
        ManagementFactory.getPlatformMBeanServer()
                .registerMBean(
                        new ReadHoldBean(options, gate, events, advising), new ObjectName(BEAN));
        ReadHold.install(gate);
        log.note("at work with " + options);
        log.drain();
        if (ticks != null) {
            new TickThread(ticks, options.pauseTickNanos(), clock).start();
        }
        new ReportThread(log, events, options.reportEveryNanos(), clock).start();
        // Last: what was set up above is complete before the first read comes by.
        instrumentation.addTransformer(advising);
    }

    private static MeasuredPause measuredPause(
            Options options, Clock clock, HoldWindow window, Events events) {
        return new MeasuredPause(
                clock.nanos(),
                options.pauseAtLeastNanos(),
                options.pauseHoldPercent(),
                window,
                events);
    }

    /** Standard error, which Cassandra has not closed yet. */
    private static void complain(String reason) {
        System.err.println("coeval-cassandra-agent: " + reason);
    }
}

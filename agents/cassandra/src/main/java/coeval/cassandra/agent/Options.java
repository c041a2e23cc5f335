package coeval.cassandra.agent;

import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;

/**
 * What {@code -javaagent:JAR=OPTIONS} says: {@code name=value} pairs with commas between them. An
 * option that is not understood is refused, and then the agent changes nothing.
 */
final class Options {
    /** A whole number with its bounds. */
    private enum Number {
        PAUSE_TICK_MS("pause-tick-ms", 2, 1, 1_000),
        PAUSE_AT_LEAST_MS("pause-at-least-ms", 5, 2, 60_000),
        PAUSE_HOLD_PERCENT("pause-hold-percent", 100, 1, 1_000),
        HEAP_JUMP_MB("heap-jump-mb", 100, 1, 1_000_000),
        HEAP_HOLD_MS("heap-hold-ms", 50, 1, 60_000),
        GC_HOLD_PERCENT("gc-hold-percent", 100, 1, 1_000),
        LONGEST_HOLD_MS("longest-hold-ms", 1_000, 1, 60_000),
        REPORT_EVERY_S("report-every-s", 60, 1, 86_400),
        LOG_AT_MOST_MB("log-at-most-mb", 16, 1, 100_000);

        final String option;
        final int unlessSaid;
        final int least;
        final int most;

        Number(String option, int unlessSaid, int least, int most) {
            this.option = option;
            this.unlessSaid = unlessSaid;
            this.least = least;
            this.most = most;
        }
    }

    private static final String METHOD = "method";
    private static final String HOLD = "hold";
    private static final String LOG = "log";

    private final Map<Number, Integer> numbers = new LinkedHashMap<>();
    private Set<Method> methods = EnumSet.of(Method.PAUSE);
    private boolean isHolding = true;
    private String logFile;

    private Options(String logFile) {
        this.logFile = logFile;
        for (Number number : Number.values()) {
            numbers.put(number, number.unlessSaid);
        }
    }

    /** Options that cannot be used, with the reason in words. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1L;

        Refused(String reason) {
            super(reason);
        }
    }

    /** Where the log lies unless an option says otherwise: beside those of Cassandra. */
    static String usualLogFile() {
        String folder = System.getProperty("cassandra.logdir");
        String name = "coeval-read-hold.log";
        return folder == null || folder.isEmpty() ? name : folder + "/" + name;
    }

    static Options parse(String text) throws Refused {
        Options options = new Options(usualLogFile());
        Set<String> said = new java.util.HashSet<>();
        if (text == null || text.trim().isEmpty()) {
            return options;
        }
        for (String pair : text.split(",", -1)) {
            int equals = pair.indexOf('=');
            if (equals < 0) {
                throw new Refused(
                        "'" + pair + "' is not of the form name=value; options are separated by"
                                + " commas");
            }
            String name = pair.substring(0, equals).trim();
            String value = pair.substring(equals + 1).trim();
            if (!said.add(name)) {
                throw new Refused("the option " + name + " is there twice");
            }
            options.set(name, value);
        }
        options.checkTogether();
        return options;
    }

    private void set(String name, String value) throws Refused {
        switch (name) {
            case METHOD:
                methods = methods(value);
                return;
            case HOLD:
                if (!value.equals("yes") && !value.equals("no")) {
                    throw new Refused(HOLD + " is yes or no, and not '" + value + "'");
                }
                isHolding = value.equals("yes");
                return;
            case LOG:
                if (value.isEmpty()) {
                    throw new Refused(LOG + " names no file");
                }
                logFile = value;
                return;
            default:
                for (Number number : Number.values()) {
                    if (number.option.equals(name)) {
                        numbers.put(number, number(number, value));
                        return;
                    }
                }
                throw new Refused("there is no option '" + name + "'; there are " + names());
        }
    }

    private static Set<Method> methods(String value) throws Refused {
        Set<Method> methods = EnumSet.noneOf(Method.class);
        for (String word : value.split("\\+", -1)) {
            boolean isKnown = false;
            for (Method method : Method.values()) {
                if (method.option.equals(word)) {
                    methods.add(method);
                    isKnown = true;
                }
            }
            if (!isKnown) {
                throw new Refused(
                        METHOD + " is pause, heap, gc, or several with + between them, and not '"
                                + value + "'");
            }
        }
        return methods;
    }

    private static int number(Number number, String value) throws Refused {
        int parsed;
        try {
            parsed = Integer.parseInt(value);
        } catch (NumberFormatException noNumber) {
            throw new Refused(number.option + " is a whole number, and not '" + value + "'");
        }
        if (parsed < number.least || parsed > number.most) {
            throw new Refused(
                    number.option + " is from " + number.least + " to " + number.most + ", and not "
                            + value);
        }
        return parsed;
    }

    private void checkTogether() throws Refused {
        int tick = numbers.get(Number.PAUSE_TICK_MS);
        int atLeast = numbers.get(Number.PAUSE_AT_LEAST_MS);
        // Otherwise every tick would be a pause.
        if (atLeast < 2 * tick) {
            throw new Refused(
                    Number.PAUSE_AT_LEAST_MS.option + " (" + atLeast + ") is at least twice "
                            + Number.PAUSE_TICK_MS.option + " (" + tick + ")");
        }
    }

    private static String names() {
        StringJoiner names = new StringJoiner(", ");
        for (String name : Arrays.asList(METHOD, HOLD, LOG)) {
            names.add(name);
        }
        for (Number number : Number.values()) {
            names.add(number.option);
        }
        return names.toString();
    }

    Set<Method> methods() {
        return Collections.unmodifiableSet(methods);
    }

    boolean isHolding() {
        return isHolding;
    }

    String logFile() {
        return logFile;
    }

    long pauseTickNanos() {
        return millis(Number.PAUSE_TICK_MS);
    }

    long pauseAtLeastNanos() {
        return millis(Number.PAUSE_AT_LEAST_MS);
    }

    int pauseHoldPercent() {
        return numbers.get(Number.PAUSE_HOLD_PERCENT);
    }

    long heapJumpBytes() {
        return numbers.get(Number.HEAP_JUMP_MB) * 1_000_000L;
    }

    long heapHoldNanos() {
        return millis(Number.HEAP_HOLD_MS);
    }

    int gcHoldPercent() {
        return numbers.get(Number.GC_HOLD_PERCENT);
    }

    long longestHoldNanos() {
        return millis(Number.LONGEST_HOLD_MS);
    }

    long reportEveryNanos() {
        return TimeUnit.SECONDS.toNanos(numbers.get(Number.REPORT_EVERY_S));
    }

    long logAtMostBytes() {
        return numbers.get(Number.LOG_AT_MOST_MB) * 1_000_000L;
    }

    private long millis(Number number) {
        return TimeUnit.MILLISECONDS.toNanos(numbers.get(number));
    }

    /** All options, in the form in which they are said. */
    @Override
    public String toString() {
        StringJoiner text = new StringJoiner(",");
        StringJoiner words = new StringJoiner("+");
        for (Method method : methods) {
            words.add(method.option);
        }
        text.add(METHOD + "=" + words);
        text.add(HOLD + "=" + (isHolding ? "yes" : "no"));
        text.add(LOG + "=" + logFile);
        numbers.forEach((number, value) -> text.add(number.option + "=" + value));
        return text.toString();
    }
}

package coeval.gamma;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.PriorityQueue;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * What clients did and saw, in memory until the end: writing files during the run would cost the
 * schedule.
 *
 * <p>An operation's start is taken before it leaves and its finish after the answer has come. One
 * without an answer has no finish: of a write the outcome is unknown.
 */
final class Recording {
    /** The value of a read whose answer has not come. */
    static final long NOT_KNOWN = -1;

    private final int[] keys;
    private final long[] values;
    private final boolean[] areWrites;
    private final long[] scheduled;
    private final long[] started;
    private final long[] finished;
    /** 1 once an operation has finished: publishes the value and the time to the writer. */
    private final AtomicIntegerArray areFinished;

    private int size;

    Recording(int capacity) {
        keys = new int[capacity];
        values = new long[capacity];
        areWrites = new boolean[capacity];
        scheduled = new long[capacity];
        started = new long[capacity];
        finished = new long[capacity];
        areFinished = new AtomicIntegerArray(capacity);
    }

    boolean isFull() {
        return size == keys.length;
    }

    /** Begins an operation now; of the issuing thread only. Scheduled 0 is not part of a schedule. */
    int begin(int key, long value, boolean isWrite, long due) {
        int operation = size++;
        keys[operation] = key;
        values[operation] = value;
        areWrites[operation] = isWrite;
        scheduled[operation] = due;
        started[operation] = System.nanoTime();
        return operation;
    }

    /** The answer to an operation; of any thread. A read that found no row has the value 0. */
    void finish(int operation, long value, long now) {
        if (!areWrites[operation]) {
            values[operation] = value;
        }
        finished[operation] = now;
        areFinished.set(operation, 1);
    }

    /**
     * Writes the history as lines of JSON, and a table of when operations were due and when they
     * began.
     */
    void write(Path history, Path slips) throws IOException {
        int[] processes = processes();
        try (BufferedWriter out = Files.newBufferedWriter(history)) {
            StringBuilder line = new StringBuilder();
            for (int operation = 0; operation < size; operation++) {
                line.setLength(0);
                boolean isFinished = areFinished.get(operation) == 1;
                line.append("{\"process\":").append(processes[operation]);
                line.append(",\"started\":").append(started[operation]);
                if (isFinished) {
                    line.append(",\"finished\":").append(finished[operation]);
                    line.append(",\"outcome\":\"committed\"");
                } else {
                    line.append(",\"outcome\":\"unknown\"");
                }
                line.append(",\"operations\":[[\"");
                line.append(areWrites[operation] ? "write" : "read");
                line.append("\",").append(keys[operation]);
                if (areWrites[operation]) {
                    line.append(',').append(values[operation]);
                } else if (isFinished) {
                    long value = values[operation];
                    line.append(',').append(value == 0 ? "null" : String.valueOf(value));
                }
                line.append("]]}\n");
                out.append(line);
            }
        }
        try (BufferedWriter out = Files.newBufferedWriter(slips)) {
            out.write("due_ns,slip_ns\n");
            for (int operation = 0; operation < size; operation++) {
                if (scheduled[operation] != 0) {
                    long slip = started[operation] - scheduled[operation];
                    out.write(scheduled[operation] + "," + slip + "\n");
                }
            }
        }
    }

    /**
     * A process for each operation, such that those of one process do not overlap: the format of
     * histories asks for it, and an open loop has no processes of its own.
     */
    private int[] processes() {
        int[] processes = new int[size];
        PriorityQueue<long[]> busy = new PriorityQueue<>((a, b) -> Long.compare(a[0], b[0]));
        Integer[] byStart = new Integer[size];
        Arrays.setAll(byStart, index -> index);
        Arrays.sort(byStart, (a, b) -> Long.compare(started[a], started[b]));
        int count = 0;
        for (int operation : byStart) {
            long[] free = busy.peek();
            int process;
            if (free != null && free[0] < started[operation]) {
                busy.poll();
                process = (int) free[1];
            } else {
                process = count++;
            }
            processes[operation] = process;
            if (areFinished.get(operation) == 1) {
                busy.add(new long[] {finished[operation], process});
            }
        }
        return processes;
    }
}

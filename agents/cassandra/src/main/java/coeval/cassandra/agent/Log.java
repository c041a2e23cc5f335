package coeval.cassandra.agent;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.LongAdder;

/**
 * The agent's own log file: Cassandra closes the standard output of its process.
 *
 * <p>Lines are queued by the threads that read, and written by the one that {@link #drain}s. A
 * full queue loses lines, and says how many; it never lets a read wait for the disk.
 */
final class Log implements AutoCloseable {
    private static final int QUEUED_LINES = 1_024;

    private final Path file;
    private final long atMostBytes;
    private final BlockingQueue<String> lines = new ArrayBlockingQueue<>(QUEUED_LINES);
    private final LongAdder lost = new LongAdder();
    private OutputStream out;
    private long bytes;

    Log(String file, long atMostBytes) throws IOException {
        this.file = Paths.get(file);
        this.atMostBytes = atMostBytes;
        open();
    }

    private void open() throws IOException {
        out = Files.newOutputStream(file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        bytes = Files.size(file);
    }

    /** Queues a line. */
    void note(String text) {
        if (!lines.offer(Instant.now() + " " + text)) {
            lost.increment();
        }
    }

    /** Queues a failure with where it came from. */
    void failure(String what, Throwable failure) {
        StringWriter trace = new StringWriter();
        failure.printStackTrace(new PrintWriter(trace));
        note(what + ": " + trace.toString().trim());
    }

    /** Writes what is queued. */
    synchronized void drain() throws IOException {
        StringBuilder text = new StringBuilder();
        for (String line = lines.poll(); line != null; line = lines.poll()) {
            text.append(line).append('\n');
        }
        long missing = lost.sumThenReset();
        if (missing > 0) {
            text.append(Instant.now()).append(' ').append(missing).append(" lines were lost\n");
        }
        if (text.length() == 0) {
            return;
        }
        byte[] written = text.toString().getBytes(StandardCharsets.UTF_8);
        if (bytes > 0 && bytes + written.length > atMostBytes) {
            turn();
        }
        out.write(written);
        out.flush();
        bytes += written.length;
    }

    /** Begins a new file; the full one stays as FILE.1, and the one before is gone. */
    private void turn() throws IOException {
        out.close();
        Path full = Paths.get(file + ".1");
        Files.move(file, full, StandardCopyOption.REPLACE_EXISTING);
        open();
    }

    @Override
    public synchronized void close() throws IOException {
        drain();
        out.close();
    }
}

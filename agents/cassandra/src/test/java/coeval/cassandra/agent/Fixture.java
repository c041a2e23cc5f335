package coeval.cassandra.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A log in a temporary file, and the events that are told to it. */
final class Fixture implements AutoCloseable {
    final Path file = Files.createTempFile("coeval-read-hold", ".log");
    final Log log = new Log(file.toString(), 1_000_000);
    final Events events = new Events(log);
    final FakeClock clock = new FakeClock();
    final HoldWindow window = new HoldWindow(clock.now, FakeClock.ms(1_000));

    Fixture() throws IOException {}

    ReadGate gate(Detector... detectors) {
        return new ReadGate(
                clock, window, List.of(detectors), events, FakeClock.ms(1_000), true);
    }

    String logged() throws IOException {
        log.drain();
        return Files.readString(file);
    }

    @Override
    public void close() throws IOException {
        log.close();
        Files.delete(file);
    }
}

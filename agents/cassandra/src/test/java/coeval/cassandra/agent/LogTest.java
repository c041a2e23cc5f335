package coeval.cassandra.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LogTest {
    @TempDir Path folder;

    @Test
    void aFullFileIsTurnedAndOneOldOneStays() throws IOException {
        Path file = folder.resolve("read-hold.log");
        try (Log log = new Log(file.toString(), 200)) {
            for (int line = 0; line < 20; line++) {
                log.note("line " + line);
                log.drain();
            }
        }
        assertTrue(Files.size(file) <= 200);
        assertTrue(Files.size(folder.resolve("read-hold.log.1")) <= 200);
        assertTrue(Files.readString(file).contains("line 19"));
        try (var files = Files.list(folder)) {
            assertEquals(2, files.count());
        }
    }

    @Test
    void aFileThatIsThereIsAppendedTo() throws IOException {
        Path file = folder.resolve("read-hold.log");
        Files.writeString(file, "before\n");
        try (Log log = new Log(file.toString(), 200)) {
            log.note("after");
        }
        assertTrue(Files.readString(file).startsWith("before\n"));
        assertTrue(Files.readString(file).endsWith(" after\n"));
    }

    @Test
    void aFullQueueLosesLinesAndSaysHowMany() throws IOException {
        Path file = folder.resolve("read-hold.log");
        try (Log log = new Log(file.toString(), 1_000_000)) {
            for (int line = 0; line < 1_024 + 3; line++) {
                log.note("line");
            }
        }
        assertTrue(Files.readString(file).endsWith(" 3 lines were lost\n"));
    }

    @Test
    void aFolderThatIsNotThereIsAnErrorAtOnce() {
        String file = folder.resolve("missing").resolve("read-hold.log").toString();
        assertThrows(IOException.class, () -> new Log(file, 200).close());
    }
}

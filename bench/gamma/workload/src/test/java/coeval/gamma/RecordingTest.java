package coeval.gamma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RecordingTest {
    @TempDir Path folder;

    private List<String> written(Recording recording) throws IOException {
        Path history = folder.resolve("history.jsonl");
        recording.write(history, folder.resolve("slips.csv"));
        return Files.readAllLines(history);
    }

    private static String without(String line) {
        return line.replaceAll("(started|finished)\":\\d+", "$1\":N");
    }

    @Test
    void operationsThatOverlapHaveProcessesOfTheirOwn() throws IOException {
        Recording recording = new Recording(4);
        int write = recording.begin(7, 1, true, 0);
        int read = recording.begin(7, Recording.NOT_KNOWN, false, 5);
        recording.finish(read, 0, System.nanoTime());
        recording.finish(write, 0, System.nanoTime());
        int again = recording.begin(7, Recording.NOT_KNOWN, false, 9);
        recording.finish(again, 1, System.nanoTime());
        List<String> lines = written(recording);
        assertEquals(
                "{\"process\":0,\"started\":N,\"finished\":N,\"outcome\":\"committed\","
                        + "\"operations\":[[\"write\",7,1]]}",
                without(lines.get(0)));
        assertEquals(
                "{\"process\":1,\"started\":N,\"finished\":N,\"outcome\":\"committed\","
                        + "\"operations\":[[\"read\",7,null]]}",
                without(lines.get(1)));
        assertTrue(lines.get(2).contains("[\"read\",7,1]"), lines.get(2));
        assertTrue(lines.get(2).matches("\\{\"process\":[01],.*"), lines.get(2));
        assertEquals(3, Files.readAllLines(folder.resolve("slips.csv")).size());
    }

    @Test
    void withoutAnAnswerTheOutcomeIsUnknown() throws IOException {
        Recording recording = new Recording(2);
        recording.begin(7, 1, true, 0);
        recording.begin(7, Recording.NOT_KNOWN, false, 5);
        List<String> lines = written(recording);
        assertEquals(
                "{\"process\":0,\"started\":N,\"outcome\":\"unknown\","
                        + "\"operations\":[[\"write\",7,1]]}",
                without(lines.get(0)));
        assertTrue(lines.get(1).endsWith("\"operations\":[[\"read\",7]]}"), lines.get(1));
    }
}

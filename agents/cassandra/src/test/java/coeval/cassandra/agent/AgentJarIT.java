package coeval.cassandra.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The jar as it is installed, in a process of its own. */
class AgentJarIT {
    /** Class files of Java 8: Cassandra 4.1 runs on it. */
    private static final int JAVA_8 = 52;

    private static final String JAR = System.getProperty("agent.jar");
    private static final String CLASSES = System.getProperty("stub.classes");

    @TempDir Path folder;

    /** A process that was started with the agent. */
    private final class Node implements AutoCloseable {
        private final Process process;
        private final BufferedReader out;
        private final BufferedWriter in;

        Node(String options, String... more) throws IOException {
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.add("-javaagent:" + JAR + "=" + options);
            command.add("-Dcassandra.logdir=" + folder);
            Collections.addAll(command, more);
            command.addAll(List.of("-cp", CLASSES, StubNode.class.getName()));
            process =
                    new ProcessBuilder(command)
                            .redirectError(folder.resolve("stderr").toFile())
                            .start();
            out =
                    new BufferedReader(
                            new InputStreamReader(
                                    process.getInputStream(), StandardCharsets.UTF_8));
            in =
                    new BufferedWriter(
                            new OutputStreamWriter(
                                    process.getOutputStream(), StandardCharsets.UTF_8));
            assertEquals("ready", out.readLine(), this::errors);
        }

        void say(String line) throws IOException {
            in.write(line + "\n");
            in.flush();
        }

        String ask(String line) throws IOException {
            say(line);
            return out.readLine();
        }

        List<String> list(String line) throws IOException {
            say(line);
            List<String> lines = new ArrayList<>();
            for (String got = out.readLine(); !got.equals("end"); got = out.readLine()) {
                lines.add(got);
            }
            return lines;
        }

        Map<String, String> bean() throws IOException {
            Map<String, String> values = new TreeMap<>();
            for (String line : list("bean")) {
                values.put(line.split("=", 2)[0], line.split("=", 2)[1]);
            }
            return values;
        }

        void signal(String name) throws Exception {
            String kill = "kill -" + name + " " + process.pid();
            assertEquals(0, new ProcessBuilder("sh", "-c", kill).start().waitFor());
        }

        String errors() {
            try {
                return Files.readString(folder.resolve("stderr"));
            } catch (IOException failure) {
                return failure.toString();
            }
        }

        @Override
        public void close() throws Exception {
            in.close();
            assertEquals(0, process.waitFor());
        }
    }

    private String log() throws IOException {
        return Files.readString(folder.resolve("coeval-read-hold.log"));
    }

    @Test
    void afterAStopReadsWaitAndTheBeanAndTheLogSayHowLong() throws Exception {
        try (Node node = new Node("")) {
            assertEquals("2", node.ask("read"));
            node.signal("STOP");
            // The pause has to be longer than what counts as one, by far.
            Thread.sleep(400);
            node.say("read");
            node.signal("CONT");
            assertEquals("4", node.out.readLine());
            Map<String, String> bean = node.bean();
            assertEquals("at work", bean.get("State"));
            assertEquals(
                    "org.apache.cassandra.db.ReadCommandVerbHandler.doVerb"
                            + " org.apache.cassandra.service.StorageProxy$LocalReadRunnable"
                            + ".runMayThrow",
                    bean.get("AdvisedMethods"));
            assertEquals("4", bean.get("Reads"));
            assertTrue(Integer.parseInt(bean.get("ReadsHeld")) >= 1, bean::toString);
            assertTrue(Integer.parseInt(bean.get("MeasuredPauses")) >= 1, bean::toString);
            assertTrue(Double.parseDouble(bean.get("LongestPauseMillis")) >= 400, bean::toString);
            assertEquals("0", bean.get("Failures"));
        }
        assertTrue(log().contains("at work with method=pause,hold=yes"), this::logText);
        assertTrue(log().contains("StorageProxy$LocalReadRunnable.runMayThrow holds reads"));
        assertTrue(log().contains("reads wait for"), this::logText);
        assertTrue(log().contains("so far: reads 4, held "), this::logText);
    }

    private String logText() {
        try {
            return log();
        } catch (IOException failure) {
            return failure.toString();
        }
    }

    @Test
    void aCollectionIsNoticedByTheHeapAndByItsReport() throws Exception {
        // The serial collector reclaims everything at once, whatever the machine.
        try (Node node =
                new Node("method=heap+gc,heap-hold-ms=1", "-XX:+UseSerialGC", "-Xmx512m")) {
            node.ask("collect");
            Map<String, String> bean = node.bean();
            for (int tries = 0; tries < 50 && bean.get("GcNotifications").equals("0"); tries++) {
                node.ask("collect");
                bean = node.bean();
            }
            assertTrue(Integer.parseInt(bean.get("HeapJumps")) >= 1, bean::toString);
            assertTrue(Integer.parseInt(bean.get("GcNotifications")) >= 1, bean::toString);
            assertEquals(List.of("coeval-read-hold-log"), node.list("threads"));
        }
    }

    @Test
    void optionsThatAreNotUnderstoodChangeNothing() throws Exception {
        try (Node node = new Node("method=cms")) {
            assertEquals("2", node.ask("read"));
            assertEquals(Map.of(), node.bean());
            assertEquals(List.of(), node.list("threads"));
            assertTrue(node.errors().contains("it changes nothing: method is"), node::errors);
        }
        assertTrue(log().contains("it changes nothing: method is"), this::logText);
    }

    @Test
    void aLogThatCannotBeWrittenChangesNothing() throws Exception {
        try (Node node = new Node("log=" + folder + "/missing/file.log")) {
            assertEquals("2", node.ask("read"));
            assertEquals(Map.of(), node.bean());
            assertTrue(node.errors().contains("it changes nothing"), node::errors);
        }
    }

    @Test
    void anotherProgramIsLeftAlone() throws Exception {
        Path version = Path.of(System.getProperty("java.home"), "bin", "java");
        Process process =
                new ProcessBuilder(
                                version.toString(),
                                "-javaagent:" + JAR,
                                "-Dcassandra.logdir=" + folder,
                                "-version")
                        .redirectErrorStream(true)
                        .start();
        process.getInputStream().readAllBytes();
        assertEquals(0, process.waitFor());
        assertTrue(log().contains("LocalReadRunnable is not on the class path"), this::logText);
    }

    @Test
    void theJarHasNothingOfByteBuddyUnderItsOwnNameAndRunsOnJava8() throws IOException {
        try (JarFile jar = new JarFile(JAR)) {
            assertEquals(
                    "coeval.cassandra.agent.Agent",
                    jar.getManifest().getMainAttributes().getValue("Premain-Class"));
            int classes = 0;
            for (JarEntry entry : Collections.list(jar.entries())) {
                String name = entry.getName();
                assertFalse(name.startsWith("net/"), name);
                if (name.endsWith(".class")) {
                    classes++;
                    assertTrue(name.startsWith("coeval/cassandra/agent/"), name);
                    try (DataInputStream in = new DataInputStream(jar.getInputStream(entry))) {
                        in.readInt();
                        in.readUnsignedShort();
                        int version = in.readUnsignedShort();
                        assertTrue(version <= JAVA_8, () -> name + " is of version " + version);
                    }
                }
            }
            assertTrue(classes > 100, "ByteBuddy is in it");
        }
    }
}

package coeval.gamma;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.metadata.Node;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * The hotspot workload against a Cassandra cluster, in an open loop, recorded.
 *
 * <p>Open loop: when an operation begins is decided beforehand (a Poisson process of the given
 * rate), and does not wait for the answers of earlier ones. So a node that is stopped does not
 * stop its clients, as it would not if they were many.
 *
 * <p>One process issues everything, on one clock: the monotonic clock of the machine, which the
 * virtual machines of the nodes write into their logs, too.
 */
public final class Workload {
    private final Settings settings;
    private final CqlSession session;
    private final List<Node> nodes;
    private final PreparedStatement read;
    private final PreparedStatement write;
    private final ByteBuffer payload;
    private final long[] versions;
    private final Recording record;

    private Workload(Settings settings, CqlSession session, Recording record) {
        this.settings = settings;
        this.session = session;
        this.record = record;
        this.nodes = new ArrayList<>(session.getMetadata().getNodes().values());
        this.read = session.prepare("SELECT value, payload FROM gamma.registers WHERE key = ?");
        this.write =
                session.prepare(
                        "INSERT INTO gamma.registers (key, value, payload) VALUES (?, ?, ?)");
        byte[] bytes = new byte[settings.payloadBytes()];
        new SplittableRandom(1).nextBytes(bytes);
        this.payload = ByteBuffer.wrap(bytes).asReadOnlyBuffer();
        this.versions = new long[settings.keys()];
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.parse(arguments);
        Recording record = new Recording(settings.operations() + settings.keys());
        try (CqlSession session = connect(settings)) {
            createTable(session, settings.replication());
            awaitNodes(session, settings.nodes().size());
            Workload workload = new Workload(settings, session, record);
            workload.load();
            say("loaded", System.nanoTime());
            workload.run();
        }
        record.write(Path.of(settings.history()), Path.of(settings.slips()));
        say("written", System.nanoTime());
    }

    private static void say(String event, long nanos) {
        System.out.println(event + " " + nanos);
        System.out.flush();
    }

    private static CqlSession connect(Settings settings) {
        Duration patient = Duration.ofSeconds(30);
        DriverConfigLoader config =
                DriverConfigLoader.programmaticBuilder()
                        .withString(DefaultDriverOption.REQUEST_CONSISTENCY, "ONE")
                        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(10))
                        .withDuration(DefaultDriverOption.CONNECTION_CONNECT_TIMEOUT, patient)
                        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, patient)
                        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, patient)
                        .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, patient)
                        .withDuration(DefaultDriverOption.HEARTBEAT_TIMEOUT, patient)
                        .withInt(DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE, 2)
                        .withInt(DefaultDriverOption.CONNECTION_MAX_REQUESTS, 8192)
                        .withInt(DefaultDriverOption.NETTY_IO_SIZE, 2)
                        .build();
        var builder =
                CqlSession.builder()
                        .withConfigLoader(config)
                        .withLocalDatacenter("datacenter1");
        for (String node : settings.nodes()) {
            builder.addContactPoint(new InetSocketAddress(node, settings.port()));
        }
        return builder.build();
    }

    private static void createTable(CqlSession session, int replication) {
        Duration patient = Duration.ofSeconds(60);
        session.execute(
                com.datastax.oss.driver.api.core.cql.SimpleStatement.newInstance(
                                "CREATE KEYSPACE gamma WITH replication ="
                                        + " {'class': 'SimpleStrategy', 'replication_factor': "
                                        + replication
                                        + "}")
                        .setTimeout(patient));
        session.execute(
                com.datastax.oss.driver.api.core.cql.SimpleStatement.newInstance(
                                "CREATE TABLE gamma.registers"
                                        + " (key int PRIMARY KEY, value bigint, payload blob)")
                        .setTimeout(patient));
    }

    private static void awaitNodes(CqlSession session, int wanted) throws InterruptedException {
        for (int tries = 0; tries < 600; tries++) {
            long up =
                    session.getMetadata().getNodes().values().stream()
                            .filter(node -> node.getOpenConnections() > 0)
                            .count();
            if (up == wanted) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("not all of " + wanted + " nodes can be connected to");
    }

    /** Writes every key once, on all replicas. */
    private void load() {
        List<CompletableFuture<?>> pending = new ArrayList<>();
        for (int key = 0; key < settings.keys(); key++) {
            long value = ++versions[key];
            BoundStatement statement =
                    write.bind(key, value, payload.duplicate())
                            .setConsistencyLevel(ConsistencyLevel.ALL)
                            .setTimeout(Duration.ofSeconds(60));
            int operation = record.begin(key, value, true, 0);
            pending.add(finish(operation, session.executeAsync(statement)));
            if (pending.size() == 16) {
                pending.forEach(CompletableFuture::join);
                pending.clear();
            }
        }
        pending.forEach(CompletableFuture::join);
    }

    private void run() throws InterruptedException {
        SplittableRandom random = new SplittableRandom(settings.seed());
        int hot = Math.max(1, settings.keys() * settings.hotKeysPercent() / 100);
        long begin = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(100);
        long measured = begin + TimeUnit.SECONDS.toNanos(settings.warmUpSeconds());
        long end = measured + TimeUnit.SECONDS.toNanos(settings.seconds());
        boolean isMeasuring = false;
        List<CompletableFuture<?>> last = new ArrayList<>();
        double due = begin;
        while (true) {
            due += -Math.log(1 - random.nextDouble()) * 1e9 / settings.rate();
            long scheduled = (long) due;
            if (scheduled >= end || record.isFull()) {
                break;
            }
            if (!isMeasuring && scheduled >= measured) {
                isMeasuring = true;
                say("measuring", measured);
            }
            for (long left = scheduled - System.nanoTime();
                    left > 0;
                    left = scheduled - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            boolean isHot = random.nextInt(100) < settings.hotOperationsPercent();
            int key =
                    isHot || hot == settings.keys()
                            ? random.nextInt(hot)
                            : hot + random.nextInt(settings.keys() - hot);
            Node node = nodes.get(random.nextInt(nodes.size()));
            CompletableFuture<?> pending =
                    random.nextInt(100) < settings.readPercent()
                            ? read(key, node, scheduled)
                            : write(key, node, scheduled);
            if (scheduled > end - TimeUnit.SECONDS.toNanos(12)) {
                last.add(pending);
            }
        }
        say("measured", end);
        last.forEach(CompletableFuture::join);
    }

    private CompletableFuture<?> read(int key, Node node, long scheduled) {
        BoundStatement statement = read.bind(key).setNode(node);
        int operation = record.begin(key, Recording.NOT_KNOWN, false, scheduled);
        return finish(operation, session.executeAsync(statement));
    }

    private CompletableFuture<?> write(int key, Node node, long scheduled) {
        long value = ++versions[key];
        BoundStatement statement = write.bind(key, value, payload.duplicate()).setNode(node);
        int operation = record.begin(key, value, true, scheduled);
        return finish(operation, session.executeAsync(statement));
    }

    private CompletableFuture<?> finish(int operation, CompletionStage<AsyncResultSet> answer) {
        return answer.handle(
                        (rows, failure) -> {
                            long now = System.nanoTime();
                            if (failure == null) {
                                Row row = rows.one();
                                record.finish(operation, row == null ? 0 : row.getLong(0), now);
                            }
                            return null;
                        })
                .toCompletableFuture();
    }

    /** What the command line says. */
    record Settings(
            List<String> nodes,
            int port,
            int replication,
            double rate,
            int keys,
            int hotKeysPercent,
            int hotOperationsPercent,
            int readPercent,
            int payloadBytes,
            int warmUpSeconds,
            int seconds,
            long seed,
            String history,
            String slips) {
        static Settings parse(String[] arguments) {
            Map<String, String> said = new java.util.HashMap<>();
            for (int index = 0; index + 1 < arguments.length; index += 2) {
                said.put(arguments[index], arguments[index + 1]);
            }
            return new Settings(
                    List.of(said.get("--nodes").split(",")),
                    Integer.parseInt(said.get("--port")),
                    Integer.parseInt(said.get("--replication")),
                    Double.parseDouble(said.get("--rate")),
                    Integer.parseInt(said.get("--keys")),
                    Integer.parseInt(said.get("--hot-keys-percent")),
                    Integer.parseInt(said.get("--hot-operations-percent")),
                    Integer.parseInt(said.get("--read-percent")),
                    Integer.parseInt(said.get("--payload-bytes")),
                    Integer.parseInt(said.get("--warm-up-s")),
                    Integer.parseInt(said.get("--seconds")),
                    Long.parseLong(said.get("--seed")),
                    said.get("--history"),
                    said.get("--slips"));
        }

        /** More than a Poisson process of this rate has. */
        int operations() {
            double expected = rate * (warmUpSeconds + seconds);
            return (int) (expected + 10 * Math.sqrt(expected) + 1_000);
        }
    }
}

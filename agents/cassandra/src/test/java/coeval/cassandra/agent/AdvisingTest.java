package coeval.cassandra.agent;

import static coeval.cassandra.agent.FakeClock.ms;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Set;
import org.apache.cassandra.net.IVerbHandler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class AdvisingTest {
    private static final String LOCAL =
            "org.apache.cassandra.service.StorageProxy$LocalReadRunnable";
    private static final String HANDLER = "org.apache.cassandra.db.ReadCommandVerbHandler";

    private Fixture fixture;
    private Advising advising;

    @BeforeEach
    void begin() throws IOException {
        fixture = new Fixture();
        advising = new Advising(fixture.log, fixture.events);
        ReadHold.install(fixture.gate());
    }

    @AfterEach
    void end() throws IOException {
        ReadHold.install(null);
        fixture.close();
    }

    /** Loads Cassandra's classes through the agent, as the virtual machine does. */
    private final class Loading extends ClassLoader {
        private final boolean seesAgent;

        Loading(boolean seesAgent) {
            super(AdvisingTest.class.getClassLoader());
            this.seesAgent = seesAgent;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            Class<?> loaded = findLoadedClass(name);
            if (loaded != null) {
                return loaded;
            }
            if (!seesAgent && name.startsWith("coeval.")) {
                throw new ClassNotFoundException(name);
            }
            if (!name.startsWith("org.apache.cassandra.") || name.endsWith("IVerbHandler")) {
                return super.loadClass(name, resolve);
            }
            byte[] plain = Renaming.classFile(name);
            byte[] advised =
                    advising.transform(this, name.replace('.', '/'), null, null, plain);
            byte[] used = advised == null ? plain : advised;
            return defineClass(name, used, 0, used.length);
        }
    }

    private static Object made(ClassLoader loader, String name) throws Exception {
        return loader.loadClass(name).getDeclaredConstructor().newInstance();
    }

    private static int reads(Object of) throws Exception {
        return of.getClass().getField("reads").getInt(of);
    }

    @SuppressWarnings("unchecked")
    private static void handle(Object handler) {
        ((IVerbHandler<String>) handler).doVerb("read");
    }

    @Test
    void bothMethodsWaitBeforeTheyRead() throws Exception {
        ClassLoader loader = new Loading(true);
        Runnable local = (Runnable) made(loader, LOCAL);
        Object handler = made(loader, HANDLER);
        fixture.window.extend(fixture.clock.now, ms(40));
        local.run();
        assertEquals(1, fixture.events.readsHeld.sum());
        assertEquals(1, reads(local));
        fixture.window.extend(fixture.clock.now, ms(40));
        handle(handler);
        assertEquals(2, fixture.events.readsHeld.sum());
        assertEquals(1, reads(handler));
        assertEquals(Set.of(LOCAL + ".runMayThrow", HANDLER + ".doVerb"), advising.advised());
    }

    /** The call arrives at the bridge, which the compiler made, and goes on to the method. */
    @Test
    void aReadIsCountedOnceAndOtherMethodsAreNotAdvised() throws Exception {
        Object handler = made(new Loading(true), HANDLER);
        handle(handler);
        assertEquals(1, fixture.events.reads.sum());
        handler.getClass().getMethod("doVerb", String.class, int.class).invoke(handler, "", 3);
        assertEquals(1, fixture.events.reads.sum());
    }

    @Test
    void aFailureInTheAgentFailsNoRead() throws Exception {
        ReadHold.install(
                fixture.gate(
                        now -> {
                            throw new StackOverflowError("planted");
                        }));
        Runnable local = (Runnable) made(new Loading(true), LOCAL);
        local.run();
        assertEquals(1, reads(local));
        assertEquals(1, fixture.events.failures.sum());
    }

    @Test
    void neitherDoesAnAgentThatTheClassLoaderDoesNotSee() throws Exception {
        Runnable local = (Runnable) made(new Loading(false), LOCAL);
        assertEquals(1, advising.advised().size(), "it is advised all the same");
        local.run();
        assertEquals(1, reads(local));
        assertEquals(0, fixture.events.reads.sum());
    }

    @Test
    void otherClassesAreLeftAlone() {
        byte[] plain = Renaming.classFile("org.apache.cassandra.service.StorageProxy");
        assertNull(
                advising.transform(
                        getClass().getClassLoader(),
                        "org/apache/cassandra/service/StorageProxy",
                        null,
                        null,
                        plain));
        assertNull(advising.transform(null, "java/lang/Object", null, null, plain));
        assertNull(advising.transform(null, null, null, null, plain));
    }

    @Test
    void aClassWithoutTheMethodIsLeftAloneAndTheLogSaysSo() throws IOException {
        assertNull(
                advising.transform(
                        getClass().getClassLoader(),
                        HANDLER.replace('.', '/'),
                        null,
                        null,
                        Renaming.handler()));
        assertEquals(Set.of(), advising.advised());
        assertTrue(fixture.logged().contains(HANDLER + ".doVerb is not there"));
    }

    @Test
    void bytesThatAreNoClassThrowNothing() {
        assertNull(
                advising.transform(
                        getClass().getClassLoader(),
                        HANDLER.replace('.', '/'),
                        null,
                        null,
                        new byte[] {1, 2, 3}));
        assertEquals(1, fixture.events.failures.sum());
        assertNotNull(fixture.events.summary());
    }
}

package coeval.cassandra.agent;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import net.bytebuddy.ByteBuddy;
import org.apache.cassandra.db.ReadCommandVerbHandler;

/** A class loader in whose version of Cassandra the handler has no method {@code doVerb}. */
final class Renaming extends ClassLoader {
    private static final String FILE = "org/apache/cassandra/db/ReadCommandVerbHandler.class";

    Renaming(ClassLoader parent) {
        super(parent);
    }

    /** The handler of such a version. */
    static byte[] handler() {
        return new ByteBuddy()
                .subclass(Object.class)
                .name(ReadCommandVerbHandler.class.getName())
                .defineMethod("doRead", void.class)
                .intercept(net.bytebuddy.implementation.StubMethod.INSTANCE)
                .make()
                .getBytes();
    }

    @Override
    public InputStream getResourceAsStream(String name) {
        if (FILE.equals(name)) {
            return new ByteArrayInputStream(handler());
        }
        return super.getResourceAsStream(name);
    }

    /** The class file of a class of these tests. */
    static byte[] classFile(String className) {
        String file = className.replace('.', '/') + ".class";
        try (InputStream in = Renaming.class.getClassLoader().getResourceAsStream(file)) {
            return in.readAllBytes();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}

package coeval.cassandra.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.pool.TypePool;

/** Weaves the advice into the methods when their classes are loaded. */
final class Advising implements ClassFileTransformer {
    private final Log log;
    private final Events events;
    private final Set<String> advised = ConcurrentHashMap.newKeySet();

    Advising(Log log, Events events) {
        this.log = log;
        this.events = events;
    }

    /** The methods that have the advice. */
    Set<String> advised() {
        return advised;
    }

    @Override
    public byte[] transform(
            ClassLoader loader,
            String internalName,
            Class<?> redefined,
            ProtectionDomain domain,
            byte[] classFile) {
        // For every class of the process this is all that happens.
        if (internalName == null || !internalName.startsWith("org/apache/cassandra/")) {
            return null;
        }
        try {
            String name = internalName.replace('/', '.');
            for (AdvisedMethod method : AdvisedMethod.ALL) {
                if (method.className.equals(name)) {
                    return advise(method, loader, classFile);
                }
            }
        } catch (Throwable failure) {
            events.failed(failure);
        }
        return null;
    }

    private byte[] advise(AdvisedMethod method, ClassLoader loader, byte[] classFile) {
        ClassFileLocator files =
                new ClassFileLocator.Compound(
                        ClassFileLocator.Simple.of(method.className, classFile),
                        ClassFileLocator.ForClassLoader.of(loader),
                        ClassFileLocator.ForClassLoader.of(Advising.class.getClassLoader()));
        TypeDescription type =
                TypePool.Default.of(files).describe(method.className).resolve();
        if (!method.isIn(type)) {
            log.note(method + " is not there: nothing is changed in its class");
            return null;
        }
        byte[] changed =
                new ByteBuddy()
                        .decorate(type, files)
                        .visit(Advice.to(ReadAdvice.class).on(method.matcher()))
                        .make()
                        .getBytes();
        advised.add(method.toString());
        log.note(method + " holds reads");
        return changed;
    }
}

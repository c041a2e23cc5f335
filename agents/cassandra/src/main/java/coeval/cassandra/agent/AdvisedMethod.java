package coeval.cassandra.agent;

import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isStatic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A method of Cassandra in which a node reads from its own data. */
final class AdvisedMethod {
    /** Reads for a client that is connected to this node; then those that another node asks for. */
    static final List<AdvisedMethod> ALL =
            Collections.unmodifiableList(
                    Arrays.asList(
                            new AdvisedMethod(
                                    "org.apache.cassandra.service.StorageProxy$LocalReadRunnable",
                                    "runMayThrow",
                                    0),
                            new AdvisedMethod(
                                    "org.apache.cassandra.db.ReadCommandVerbHandler",
                                    "doVerb",
                                    1)));

    final String className;
    final String methodName;
    private final int arguments;

    private AdvisedMethod(String className, String methodName, int arguments) {
        this.className = className;
        this.methodName = methodName;
        this.arguments = arguments;
    }

    /**
     * The method in the class. The compiler adds a bridge of the same name that calls it, where
     * the parameter is generic: advising that, too, would hold a read twice.
     */
    ElementMatcher.Junction<MethodDescription> matcher() {
        return named(methodName)
                .and(takesArguments(arguments))
                .and(not(isAbstract()))
                .and(not(isStatic()))
                .and(method -> !method.isBridge());
    }

    boolean isIn(TypeDescription type) {
        return type.getDeclaredMethods().filter(matcher()).size() == 1;
    }

    @Override
    public String toString() {
        return className + "." + methodName;
    }
}

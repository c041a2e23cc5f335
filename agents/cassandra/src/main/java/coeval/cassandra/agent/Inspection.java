package coeval.cassandra.agent;

import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.pool.TypePool;

/** Looks for the methods in the class files, before their classes are loaded. */
final class Inspection {
    private Inspection() {}

    /** What is missing, in words; empty if every method is there. */
    static List<String> missing(ClassLoader loader) {
        TypePool types = TypePool.Default.of(ClassFileLocator.ForClassLoader.of(loader));
        List<String> missing = new ArrayList<>();
        for (AdvisedMethod method : AdvisedMethod.ALL) {
            TypePool.Resolution found = types.describe(method.className);
            if (!found.isResolved()) {
                missing.add("the class " + method.className + " is not on the class path");
            } else if (!method.isIn(found.resolve())) {
                missing.add(
                        "the class " + method.className + " has no such " + method.methodName);
            }
        }
        return missing;
    }

    /** Which of the classes are loaded, in words: what was loaded before cannot be changed. */
    static List<String> loaded(Class<?>[] classes) {
        List<String> loaded = new ArrayList<>();
        for (Class<?> each : classes) {
            for (AdvisedMethod method : AdvisedMethod.ALL) {
                if (method.className.equals(each.getName())) {
                    loaded.add(
                            "the class "
                                    + method.className
                                    + " is loaded already; name this agent before all others");
                }
            }
        }
        return loaded;
    }
}

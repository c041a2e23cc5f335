package coeval.cassandra.agent;

import net.bytebuddy.asm.Advice;

/** Copied into the beginning of the advised methods; not called. */
final class ReadAdvice {
    private ReadAdvice() {}

    /** What even the call can throw, as a class that is not found, ends in the copy. */
    @Advice.OnMethodEnter(suppress = Throwable.class)
    static void enter() {
        ReadHold.beforeRead();
    }
}

package dev.soloist.peer;

import java.time.Duration;

/** The locks of one library on one server. */
interface Locks extends AutoCloseable {
    /**
     * Tries to take the lock for at most {@code wait}, which may be zero, and answers null when it is refused. Who holds it is
     * the calling thread, for the libraries that care.
     */
    Held lock(String name, Duration atMost, Duration atLeast, Duration wait) throws Exception;

    /** Runs the task under the lock, and says false when the lock is refused and the task has not been run. */
    boolean run(String name, Duration atMost, Runnable task) throws Exception;

    @Override
    void close();

    /** A lock that has been taken. */
    interface Held {
        /** The fencing token; 0 where there is none. */
        long token();

        void unlock() throws Exception;

        /** Says false when the library refuses, and then the lock is as it was. */
        boolean extend(Duration atMost, Duration atLeast) throws Exception;
    }
}

package dev.soloist.peer;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** InterProcessMutex of Curator. A lock lasts as long as the session of the client, whatever {@code atMost} is. */
final class CuratorLocks implements Locks {
    private final CuratorFramework client;

    CuratorLocks(CuratorFramework client) {
        this.client = client;
    }

    @Override
    public Held lock(String name, Duration atMost, Duration atLeast, Duration wait) throws Exception {
        if (!atLeast.isZero()) {
            throw new IllegalArgumentException("Curator has no atLeast; give 0");
        }
        // A mutex of its own for each lock: one and the same lets its thread in again.
        InterProcessMutex mutex = new InterProcessMutex(client, "/curator/" + name);
        return mutex.acquire(wait.toMillis(), TimeUnit.MILLISECONDS) ? new CuratorLock(mutex) : null;
    }

    @Override
    public boolean run(String name, Duration atMost, Runnable task) throws Exception {
        Held held = lock(name, atMost, Duration.ZERO, Duration.ofMinutes(5));
        if (held == null) {
            return false;
        }
        try {
            task.run();
        } finally {
            held.unlock();
        }
        return true;
    }

    @Override
    public void close() {
        client.close();
    }

    private record CuratorLock(InterProcessMutex mutex) implements Held {
        @Override
        public long token() {
            return 0;
        }

        @Override
        public void unlock() throws Exception {
            mutex.release();
        }

        @Override
        public boolean extend(Duration atMost, Duration atLeast) {
            throw new UnsupportedOperationException("Curator keeps its session alive, and has nothing to extend");
        }
    }
}

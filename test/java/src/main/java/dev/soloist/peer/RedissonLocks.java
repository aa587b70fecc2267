package dev.soloist.peer;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Redisson's RLock, or its RFencedLock. An {@code atMost} of zero leaves the lock to Redisson's watchdog. */
final class RedissonLocks implements Locks {
    private final RedissonClient client;
    private final boolean fenced;

    RedissonLocks(RedissonClient client, boolean fenced) {
        this.client = client;
        this.fenced = fenced;
    }

    @Override
    public Held lock(String name, Duration atMost, Duration atLeast, Duration wait) throws InterruptedException {
        if (!atLeast.isZero()) {
            throw new IllegalArgumentException("Redisson has no atLeast; give 0");
        }
        long lease = atMost.isZero() ? -1 : atMost.toMillis();
        if (fenced) {
            RFencedLock lock = client.getFencedLock(name);
            Long token = lock.tryLockAndGetToken(wait.toMillis(), lease, TimeUnit.MILLISECONDS);
            return token == null ? null : new RedissonLock(lock, token);
        }
        RLock lock = client.getLock(name);
        return lock.tryLock(wait.toMillis(), lease, TimeUnit.MILLISECONDS) ? new RedissonLock(lock, 0) : null;
    }

    @Override
    public boolean run(String name, Duration atMost, Runnable task) throws Exception {
        // A short wait can end in an exception: Redisson subscribes in what is left of it.
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
        client.shutdown();
    }

    private record RedissonLock(RLock lock, long token) implements Held {
        @Override
        public void unlock() {
            lock.unlock();
        }

        @Override
        public boolean extend(Duration atMost, Duration atLeast) {
            throw new UnsupportedOperationException("Redisson extends by its watchdog alone");
        }
    }
}

package dev.soloist.peer;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;

/** ShedLock on any of its providers. It does not wait by itself: waiting is trying again every few milliseconds. */
final class ShedLocks implements Locks {
    private final LockProvider provider;
    private final LockingTaskExecutor executor;
    private final Runnable close;

    ShedLocks(LockProvider provider, Runnable close) {
        this.provider = provider;
        this.executor = new DefaultLockingTaskExecutor(provider);
        this.close = close;
    }

    @Override
    public Held lock(String name, Duration atMost, Duration atLeast, Duration wait) {
        long end = System.nanoTime() + wait.toNanos();
        while (true) {
            Optional<SimpleLock> lock = provider.lock(new LockConfiguration(Instant.now(), name, atMost, atLeast));
            if (lock.isPresent()) {
                return new ShedLock(lock.get());
            }
            if (System.nanoTime() - end >= 0) {
                return null;
            }
            pause();
        }
    }

    /** Runs the task as a method with the annotation SchedulerLock is run. */
    @Override
    public boolean run(String name, Duration atMost, Runnable task) {
        AtomicBoolean executed = new AtomicBoolean();
        executor.executeWithLock(
                (Runnable) () -> {
                    executed.set(true);
                    task.run();
                },
                new LockConfiguration(Instant.now(), name, atMost, Duration.ZERO));
        if (!executed.get()) {
            pause();
        }
        return executed.get();
    }

    @Override
    public void close() {
        close.run();
    }

    private static void pause() {
        LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(500_000, 3_000_000));
    }

    private static final class ShedLock implements Held {
        private SimpleLock lock;

        ShedLock(SimpleLock lock) {
            this.lock = lock;
        }

        @Override
        public long token() {
            return 0;
        }

        @Override
        public void unlock() {
            lock.unlock();
        }

        @Override
        public boolean extend(Duration atMost, Duration atLeast) {
            Optional<SimpleLock> extended = lock.extend(atMost, atLeast);
            extended.ifPresent(l -> lock = l);
            return extended.isPresent();
        }
    }
}

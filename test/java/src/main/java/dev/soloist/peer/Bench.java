package dev.soloist.peer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Measures how long locking takes, after a warm-up for the compiler.
 *
 * <ul>
 *   <li>A: pairs of lock and unlock, each thread on its own name
 *   <li>B: the same; by custom with 64 threads where A has one
 *   <li>D: tries at one name that somebody else holds
 * </ul>
 */
final class Bench {
    private static final Duration AT_MOST = Duration.ofSeconds(30);
    private static final Duration HELD = Duration.ofMinutes(10); // longer than any measurement
    private static final int SAMPLES = 1 << 18; // a thread keeps the last so many durations

    private final Locks locks;
    private final String which;
    private final String prefix = "bench-" + UUID.randomUUID() + "-";

    private Bench(Locks locks, String which) {
        this.locks = locks;
        this.which = which;
    }

    /**
     * Runs a case and answers a JSON object: case, threads, seconds, operations, rate (per second), p50 and p99 (µs), and all:
     * the operations with those of the warm-up.
     */
    static String run(Locks locks, String which, double seconds, int threads) throws Exception {
        if (!List.of("A", "B", "D").contains(which)) {
            throw new IllegalArgumentException("there is no case " + which + "; there are A, B and D");
        }
        return new Bench(locks, which).measure(seconds, threads);
    }

    private String measure(double seconds, int threads) throws Exception {
        Locks.Held held = which.equals("D") ? locks.lock(prefix + "held", HELD, Duration.ZERO, Duration.ZERO) : null;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Samples> before = round(pool, threads, Math.min(3, Math.max(0.1, seconds)));
            long begun = System.nanoTime();
            List<Samples> all = round(pool, threads, seconds);
            return json(before, all, threads, (System.nanoTime() - begun) / 1e9);
        } finally {
            pool.shutdown();
            if (held != null) {
                held.unlock();
            }
        }
    }

    private List<Samples> round(ExecutorService pool, int threads, double seconds) throws Exception {
        List<Callable<Samples>> work = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            String name = which.equals("D") ? prefix + "held" : prefix + i;
            work.add(() -> loop(name, seconds));
        }
        List<Samples> all = new ArrayList<>();
        for (Future<Samples> f : pool.invokeAll(work)) {
            all.add(f.get());
        }
        return all;
    }

    private Samples loop(String name, double seconds) throws Exception {
        Samples samples = new Samples();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (long now = System.nanoTime(); now - end < 0; ) {
            Locks.Held held = locks.lock(name, AT_MOST, Duration.ZERO, Duration.ZERO);
            if ((held == null) != which.equals("D")) {
                throw new IllegalStateException(held == null ? "a free lock was refused" : "a held lock was granted");
            }
            if (held != null) {
                held.unlock();
            }
            long then = System.nanoTime();
            samples.add(then - now);
            now = then;
        }
        return samples;
    }

    private String json(List<Samples> before, List<Samples> all, int threads, double seconds) {
        long operations = all.stream().mapToLong(s -> s.count).sum();
        long warmUp = before.stream().mapToLong(s -> s.count).sum();
        long[] sorted = all.stream().flatMapToLong(Samples::kept).sorted().toArray();
        return String.format(
                Locale.ROOT,
                "{\"case\":\"%s\",\"threads\":%d,\"seconds\":%.3f,\"operations\":%d,\"rate\":%.1f,\"p50\":%.1f,\"p99\":%.1f,"
                        + "\"all\":%d}",
                which, threads, seconds, operations, operations / seconds, at(sorted, 0.50), at(sorted, 0.99), warmUp + operations);
    }

    private static double at(long[] sorted, double quantile) {
        return sorted.length == 0 ? 0 : sorted[(int) (quantile * (sorted.length - 1))] / 1e3;
    }

    private static final class Samples {
        private long[] nanos = new long[1024];
        private long count;

        void add(long duration) {
            if (count == nanos.length && nanos.length < SAMPLES) {
                nanos = Arrays.copyOf(nanos, 2 * nanos.length);
            }
            nanos[(int) (count % nanos.length)] = duration;
            count++;
        }

        java.util.stream.LongStream kept() {
            return Arrays.stream(nanos, 0, (int) Math.min(count, nanos.length));
        }
    }
}

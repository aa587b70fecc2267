package dev.soloist.peer;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/** An integer in a file that nothing protects but the lock. */
final class Counter {
    private Counter() {}

    /** Increments the number {@code n} times, each time under the lock. */
    static void count(Locks locks, String name, Path file, int n) throws Exception {
        for (int done = 0; done < n; ) {
            if (locks.run(name, Duration.ofSeconds(30), () -> increment(file))) {
                done++;
            }
        }
    }

    private static void increment(Path file) {
        try {
            long number = Long.parseLong(Files.readString(file).trim());
            LockSupport.parkNanos(100_000); // a second holder would be in here meanwhile
            Files.writeString(file, Long.toString(number + 1));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}

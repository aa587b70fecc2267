package dev.soloist.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Locks on behalf of who writes to its standard input. The command line is a provider and its options; see Providers.
 *
 * <p>A line is a request: words separated by tabs, the first of which is an id that the request has alone. Many may be under way;
 * each is answered by one line on standard output, that begins with the same id. Durations are whole milliseconds.
 *
 * <pre>
 * ID lock NAME ATMOST ATLEAST WAIT  → ID held TOKEN     (token 0 where there is none)  or ID refused
 * ID extend LOCK ATMOST ATLEAST     → ID ok             or ID refused; LOCK is the id of the lock request
 * ID unlock LOCK                    → ID ok
 * ID count NAME FILE N              → ID ok             FILE holds an integer that is incremented N times
 * ID bench CASE SECONDS THREADS     → ID result JSON    see Bench
 * </pre>
 *
 * Any of them may be answered by {@code ID error MESSAGE}. The first line, when all is open, is {@code 0 ready}. It ends at the
 * end of its input, and leaves what it holds held.
 */
public final class Peer {
    private final Locks locks;
    private final PrintStream out;
    private final ExecutorService pool = Executors.newCachedThreadPool();
    private final Map<String, Holding> holdings = new ConcurrentHashMap<>();

    /** What was locked, and the thread that did: for Redisson the thread is the owner. */
    private record Holding(Locks.Held held, ExecutorService thread) {}

    private Peer(Locks locks, PrintStream out) {
        this.locks = locks;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            throw new IllegalArgumentException("give a provider and its options");
        }
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // standard output is for replies alone
        Options options = new Options(args);
        Peer peer = new Peer(Providers.open(args[0], options), out);
        options.done();
        peer.reply("0", "ready");
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.take(line.split("\t", -1));
        }
        Runtime.getRuntime().halt(0); // leases stay as they are, as those of a process that died
    }

    private void take(String[] words) {
        ExecutorService on = switch (words[1]) {
            case "lock" -> Executors.newSingleThreadExecutor();
            case "extend", "unlock" -> holdings.containsKey(words[2]) ? holdings.get(words[2]).thread() : pool;
            default -> pool;
        };
        on.execute(() -> {
            try {
                answer(words, on);
            } catch (Throwable e) {
                e.printStackTrace();
                reply(words[0], "error", String.valueOf(e).replaceAll("\\s+", " "));
            }
        });
    }

    private void answer(String[] words, ExecutorService thread) throws Exception {
        String id = words[0];
        switch (words[1]) {
            case "lock" -> lock(id, words, thread);
            case "extend" -> reply(id, holding(words[2]).held().extend(millis(words[3]), millis(words[4])) ? "ok" : "refused");
            case "unlock" -> {
                Holding holding = holding(words[2]);
                holdings.remove(words[2]);
                holding.thread().shutdown();
                holding.held().unlock();
                reply(id, "ok");
            }
            case "count" -> {
                Counter.count(locks, words[2], Path.of(words[3]), Integer.parseInt(words[4]));
                reply(id, "ok");
            }
            case "bench" -> reply(
                    id, "result", Bench.run(locks, words[2], Double.parseDouble(words[3]), Integer.parseInt(words[4])));
            default -> throw new IllegalArgumentException("there is no request " + words[1]);
        }
    }

    private void lock(String id, String[] words, ExecutorService thread) throws Exception {
        Locks.Held held = null;
        try {
            held = locks.lock(words[2], millis(words[3]), millis(words[4]), millis(words[5]));
        } finally {
            if (held == null) {
                thread.shutdown();
            }
        }
        if (held == null) {
            reply(id, "refused");
            return;
        }
        holdings.put(id, new Holding(held, thread));
        reply(id, "held", Long.toString(held.token()));
    }

    private Holding holding(String id) {
        Holding holding = holdings.get(id);
        if (holding == null) {
            throw new IllegalArgumentException("nothing is held by request " + id);
        }
        return holding;
    }

    private static Duration millis(String word) {
        return Duration.ofMillis(Long.parseLong(word));
    }

    private synchronized void reply(String... words) {
        out.print(String.join("\t", words) + "\n");
        out.flush();
    }
}

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/**
 * Locks, permits and elements of a soloist service, with the classes of Java alone.
 *
 * <p>java Soloist.java URL[,URL…] lease NAME [TTL] | hold NAME | permit NAME LIMIT | element JOB ID
 *
 * <p>The URLs are instances of one service. TOKEN in the environment is the token of the caller, if the service needs one.
 */
public class Soloist {
  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(2, Soloist::daemon);
  private final ExecutorService readers = Executors.newCachedThreadPool(Soloist::daemon); // of connections that hold locks
  private final String replica = "java-" + ProcessHandle.current().pid(); // what lists show as the holder
  private final List<String> instances;
  private final String token;
  private final AtomicInteger instance = new AtomicInteger();

  Soloist(List<String> instances, String token) {
    this.instances = instances;
    this.token = token;
  }

  /** An error that the service reports; code is one of those in docs/operate/service.md. */
  static class Problem extends IOException {
    final int status;
    final String code;

    Problem(int status, String body) {
      super("status " + status + ": " + text(body, "code") + ": " + text(body, "detail"));
      this.status = status;
      this.code = text(body, "code");
    }
  }

  /** An instant, by a clock that is not set, and by one that goes on while the machine is suspended. */
  record Instant(long nanos, long millis) {
    static Instant now() {
      return new Instant(System.nanoTime(), System.currentTimeMillis());
    }

    /** Returns how many seconds have passed, by the clock that says more. */
    double passed() {
      return Math.max((System.nanoTime() - nanos) / 1e9, (System.currentTimeMillis() - millis) / 1e3);
    }
  }

  /** A reply, and when the request that got it was sent. */
  record Reply(String body, Instant sent) {
    /** Returns for how many seconds what it grants is certainly held. */
    double left() {
      return Double.parseDouble(text(body, "expiresIn")) - sent.passed();
    }
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }

  static Duration seconds(double n) {
    return Duration.ofMillis(Math.max(1, (long) (n * 1000)));
  }

  /** Returns a field of a reply. Its replies are flat; a program that has a parser of JSON uses that. */
  static String text(String body, String field) {
    var found = Pattern.compile("\"" + field + "\":\"?([^\",}]*)").matcher(body);
    return found.find() ? found.group(1) : "";
  }

  static String part(String name) {
    return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
  }

  HttpRequest.Builder request(String path, String body) {
    String at = instances.get(Math.floorMod(instance.get(), instances.size()));
    var r = HttpRequest.newBuilder(URI.create(at + path)).header("Content-Type", "application/json");
    if (token != null) {
      r.header("Authorization", "Bearer " + token);
    }
    return r.POST(HttpRequest.BodyPublishers.ofString(body));
  }

  /** Sends a request until an instance responds, for until seconds. */
  Reply call(String path, String body, double until, double timeout, String key) throws IOException, InterruptedException {
    for (Instant begun = Instant.now(); ; Thread.sleep(100)) {
      Instant sent = Instant.now();
      try {
        var request = request(path, body).timeout(seconds(timeout));
        if (key != null) {
          request.header("Idempotency-Key", key);
        }
        HttpResponse<String> response = http.send(request.build(), BodyHandlers.ofString());
        if (response.statusCode() < 300) {
          return new Reply(response.body(), sent);
        }
        throw new Problem(response.statusCode(), response.body());
      } catch (IOException e) { // without a response it may have been done, and 503 may pass, as what a proxy says
        if (e instanceof Problem p && p.status < 500 || begun.passed() > until) {
          throw e;
        }
      }
      instance.incrementAndGet();
    }
  }

  /** Takes a lease. The key makes it safe to repeat the request, whatever became of it. */
  Lease lease(String path, double ttl, double wait) throws IOException, InterruptedException {
    String body = "{\"ttl\": %s, \"wait\": %s, \"replica\": \"%s\"}".formatted(ttl, wait, replica);
    return new Lease(ttl, call(path, body, wait + 60, wait + 10, UUID.randomUUID().toString()));
  }

  /**
   * Passes on the events of a lock that is held for as long as its connection: one every third of the TTL. At another event than held and alive, and when hold returns or
   * throws, stop the work. The event late is this client's own: the lock could end before the next line is missed. The connection, whose end frees the name, is closed when
   * the event has been taken, so stop the work in it.
   */
  void hold(String name, double ttl, Consumer<String> event) throws IOException, InterruptedException {
    String body = "{\"ttl\": %s, \"wait\": %s, \"replica\": \"%s\"}".formatted(ttl, ttl / 3, replica);
    long pause = (long) (ttl * 500);
    Instant sent = Instant.now();
    var coming = http.sendAsync(request("/v1/locks/" + part(name) + "/hold", body).build(), BodyHandlers.ofInputStream()); // a timeout of the request would end its lines, too
    CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS).execute(() -> coming.cancel(true)); // without effect once it has responded
    try (var lines = coming.get().body()) {
      int status = coming.get().statusCode();
      if (status >= 300) {
        throw new Problem(status, new String(lines.readAllBytes(), StandardCharsets.UTF_8));
      }
      var in = new java.io.BufferedReader(new java.io.InputStreamReader(lines, StandardCharsets.UTF_8));
      for (String line = "{\"event\":\"\"}"; ; ) {
        try {
          line = readers.submit(in::readLine).get(pause, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
          event.accept(late(line));
          return;
        }
        if (line == null) {
          return;
        }
        boolean held = text(line, "event").matches("held|alive");
        boolean late = held && new Reply(line, sent).left() < ttl / 2;
        event.accept(late ? late(line) : line);
        if (late || !held) {
          return;
        }
      }
    } catch (ExecutionException | CancellationException e) {
      throw new IOException(e.toString(), e);
    }
  }

  private static String late(String line) {
    return line.replaceFirst("\"event\":\"[^\"]*", "\"event\":\"late");
  }

  /** A lease that is renewed. When it is lost, stop the work: another may have it. */
  class Lease {
    final String id;
    final String fencingToken;
    private final double ttl;
    private final ScheduledFuture<?> renewals;
    private volatile Reply last; // that granted it, or renewed it
    private volatile boolean refused;

    Lease(double ttl, Reply granted) {
      this.ttl = ttl;
      id = text(granted.body, "lease");
      fencingToken = text(granted.body, "token");
      last = granted;
      long pause = (long) (ttl * 1000 / 3);
      renewals = timer.scheduleWithFixedDelay(this::renew, pause, pause, TimeUnit.MILLISECONDS);
    }

    /** Reports whether the lease is lost, or could be: whatever hangs, its end is known. */
    boolean lost() {
      return refused || last.left() <= 0;
    }

    private void renew() {
      try {
        Reply reply = call("/v1/leases/" + id + "/renew", "", last.left() - ttl / 6, ttl / 6, null);
        if (lost()) {
          return;
        }
        last = reply;
        System.out.println("renewed");
      } catch (Exception e) { // lost, or no instance has responded
        refused = true;
        stop();
      }
    }

    void stop() {
      renewals.cancel(false);
    }

    void release() throws IOException, InterruptedException {
      stop();
      call("/v1/leases/" + id + "/release", "", 60, 10, null);
    }
  }

  public static void main(String[] args) throws Exception {
    var client = new Soloist(List.of(args[0].split(",")), System.getenv("TOKEN"));
    String name = part(args[2]);
    if (args[1].equals("element")) {
      String element = "/v1/elements/" + name + "/" + part(args[3]);
      try {
        Lease claim = client.lease(element + "/claim", 30, 0);
        claim.stop();
        client.call(element + "/done", "{\"lease\": \"" + claim.id + "\"}", 60, 10, null);
        System.out.println("processed");
      } catch (Problem e) {
        System.out.println(e.code); // done, held or failed
      }
    } else if (args[1].equals("hold")) {
      var worked = new Thread(() -> {
        try {
          System.in.readAllBytes(); // the work
        } catch (IOException e) {
          System.err.println(e);
        }
        System.exit(0);
      });
      worked.start();
      while (true) {
        try {
          client.hold(args[2], 15, line -> System.out.println(text(line, "event") + " " + text(line, "token")));
        } catch (IOException e) {
          System.out.println("broken " + e.getMessage());
        }
        client.instance.incrementAndGet();
        Thread.sleep(100);
      }
    } else {
      String path = args[1].equals("permit") ? "/v1/semaphores/" + name + "/acquire?limit=" + args[3] : "/v1/locks/" + name + "/acquire";
      double ttl = args[1].equals("lease") && args.length > 3 ? Double.parseDouble(args[3]) : 30;
      Lease lease = client.lease(path, ttl, 60);
      System.out.println("held " + lease.fencingToken);
      System.in.readAllBytes(); // the work; check lease.lost() in it
      if (lease.lost()) {
        throw new IOException("lost");
      }
      lease.release();
      System.out.println("released");
    }
    System.exit(0);
  }
}

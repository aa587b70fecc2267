package dev.soloist.peer;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.net.URI;
import java.time.Duration;
import java.util.TimeZone;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.provider.zookeeper.curator.ZookeeperCuratorLockProvider;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisClientConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import redis.clients.jedis.JedisPoolConfig;

/**
 * Opens what the command line names:
 *
 * <ul>
 *   <li>{@code jdbc url= [user=] [password=] [table=] [columns=] [lockedBy=]}: ShedLock in SQL, by the database's clock
 *       (usingDbTime); columns has four names with commas between
 *   <li>{@code jdbc-client-time … [utc=true]}: the same by the clock of this machine, in UTC or in the zone of the JVM
 *   <li>{@code jedis url= [env=] [safe=true]}, {@code lettuce …}: ShedLock in Redis; safe looks who holds the lock before unlock
 *       and extend (safeUpdate)
 *   <li>{@code redisson url=}, {@code redisson-fenced url=}: RLock and RFencedLock
 *   <li>{@code curator url=}: InterProcessMutex of Curator, in ZooKeeper
 *   <li>{@code shedlock-zookeeper url=}: ShedLock in ZooKeeper
 * </ul>
 *
 * Each takes {@code pool=}, how many connections it may have (10).
 */
final class Providers {
    /** How long a peer waits for an answer: longer than a busy machine takes, since the defaults are a few seconds. */
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private Providers() {}

    static Locks open(String provider, Options options) {
        int pool = Integer.parseInt(options.get("pool", "10"));
        return switch (provider) {
            case "jdbc", "jdbc-client-time" -> jdbc(options, pool, provider.equals("jdbc"));
            case "jedis" -> redis(options, jedis(URI.create(options.need("url")), pool));
            case "lettuce" -> redis(options, lettuce(URI.create(options.need("url"))));
            case "redisson", "redisson-fenced" -> redisson(options, pool, provider.endsWith("-fenced"));
            case "curator" -> new CuratorLocks(curator(URI.create(options.need("url"))));
            case "shedlock-zookeeper" -> shedlock(curator(URI.create(options.need("url"))));
            default -> throw new IllegalArgumentException("there is no provider " + provider);
        };
    }

    private static Locks jdbc(Options options, int pool, boolean dbTime) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(options.need("url"));
        config.setUsername(options.get("user", null));
        config.setPassword(options.get("password", null));
        config.setMaximumPoolSize(pool);
        config.setMinimumIdle(1);
        config.setConnectionTimeout(PATIENCE.toMillis());
        HikariDataSource source = new HikariDataSource(config);
        var builder = JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(source))
                .withTableName(options.get("table", "shedlock"));
        if (dbTime) {
            builder.usingDbTime();
        } else if (Boolean.parseBoolean(options.get("utc", "false"))) {
            builder.withTimeZone(TimeZone.getTimeZone("UTC")); // as forceUtcTimeZone, which older releases have not
        }
        String columns = options.get("columns", null);
        if (columns != null) {
            String[] names = columns.split(",");
            builder.withColumnNames(
                    new JdbcTemplateLockProvider.ColumnNames(names[0], names[1], names[2], names[3]));
        }
        String lockedBy = options.get("lockedBy", null);
        if (lockedBy != null) {
            builder.withLockedByValue(lockedBy);
        }
        return new ShedLocks(new JdbcTemplateLockProvider(builder.build()), source::close);
    }

    private static Locks redis(Options options, RedisConnectionFactory factory) {
        RedisLockProvider provider = new RedisLockProvider.Builder(factory)
                .environment(options.get("env", "default"))
                .safeUpdate(Boolean.parseBoolean(options.get("safe", "false")))
                .build();
        return new ShedLocks(provider, () -> {});
    }

    private static RedisStandaloneConfiguration standalone(URI url) {
        RedisStandaloneConfiguration config = new RedisStandaloneConfiguration(url.getHost(), url.getPort());
        if (url.getPath().length() > 1) {
            config.setDatabase(Integer.parseInt(url.getPath().substring(1)));
        }
        if (url.getUserInfo() != null) {
            String[] parts = url.getUserInfo().split(":", 2);
            if (!parts[0].isEmpty()) {
                config.setUsername(parts[0]);
            }
            config.setPassword(parts.length > 1 ? parts[1] : "");
        }
        return config;
    }

    private static RedisConnectionFactory jedis(URI url, int pool) {
        JedisPoolConfig config = new JedisPoolConfig();
        config.setMaxTotal(pool);
        config.setMaxIdle(pool);
        var client = JedisClientConfiguration.builder().connectTimeout(PATIENCE).readTimeout(PATIENCE);
        var factory = new JedisConnectionFactory(standalone(url), client.usePooling().poolConfig(config).build());
        factory.start();
        return factory;
    }

    private static RedisConnectionFactory lettuce(URI url) {
        var client = LettuceClientConfiguration.builder().commandTimeout(PATIENCE).build();
        var factory = new LettuceConnectionFactory(standalone(url), client);
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }

    private static CuratorFramework curator(URI url) {
        var client = CuratorFrameworkFactory.newClient(
                url.getAuthority(), 30_000, (int) PATIENCE.toMillis(), new ExponentialBackoffRetry(100, 3));
        client.start();
        return client;
    }

    private static Locks shedlock(CuratorFramework client) {
        return new ShedLocks(new ZookeeperCuratorLockProvider(client), client::close);
    }

    private static Locks redisson(Options options, int pool, boolean fenced) {
        Config config = new Config();
        config.useSingleServer()
                .setAddress(options.need("url"))
                .setConnectTimeout((int) PATIENCE.toMillis())
                .setTimeout((int) PATIENCE.toMillis())
                .setSubscriptionTimeout((int) PATIENCE.toMillis())
                .setConnectionPoolSize(pool)
                .setConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1);
        config.setLockWatchdogTimeout(Duration.ofSeconds(30).toMillis());
        return new RedissonLocks(Redisson.create(config), fenced);
    }
}

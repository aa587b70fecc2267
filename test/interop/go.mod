module github.com/soloist-dev/soloist/test/interop

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/go-sql-driver/mysql v1.10.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/soloist-dev/soloist v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/soloist-dev/soloist/store/mysqlstore v0.0.0
	github.com/soloist-dev/soloist/store/pgstore v0.0.0
	github.com/soloist-dev/soloist/store/redisstore v0.0.0
	github.com/soloist-dev/soloist/store/zkstore v0.0.0
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/soloist-dev/soloist => ../..

replace github.com/soloist-dev/soloist/store/pgstore => ../../store/pgstore

replace github.com/soloist-dev/soloist/store/mysqlstore => ../../store/mysqlstore

replace github.com/soloist-dev/soloist/store/redisstore => ../../store/redisstore

replace github.com/soloist-dev/soloist/store/zkstore => ../../store/zkstore

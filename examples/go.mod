module github.com/soloist-dev/soloist/examples

go 1.26.0

require (
	github.com/soloist-dev/soloist v0.0.0
	github.com/soloist-dev/soloist/store/sqlitestore v0.0.0
)

require (
	github.com/StackExchange/wmi v0.0.0-20190523213315-cbe66965904d // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-ole/go-ole v1.2.4 // indirect
	github.com/hazelcast/hazelcast-go-client v1.4.2 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/shirou/gopsutil/v3 v3.21.5 // indirect
	github.com/tklauser/go-sysconf v0.3.4 // indirect
	github.com/tklauser/numcpus v0.2.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/soloist-dev/soloist/store/hazelcaststore v0.0.0
	github.com/soloist-dev/soloist/store/redisstore v0.0.0
	golang.org/x/sys v0.49.0 // indirect
	modernc.org/libc v1.79.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.61.1 // indirect
)

replace (
	github.com/soloist-dev/soloist => ..
	github.com/soloist-dev/soloist/store/sqlitestore => ../store/sqlitestore
)

replace github.com/soloist-dev/soloist/store/hazelcaststore => ../store/hazelcaststore

replace github.com/soloist-dev/soloist/store/redisstore => ../store/redisstore

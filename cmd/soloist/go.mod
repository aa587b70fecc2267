module github.com/soloist-dev/soloist/cmd/soloist

go 1.26.0

require (
	github.com/apache/cassandra-gocql-driver/v2 v2.1.2
	github.com/rogpeppe/go-internal v1.16.0
	github.com/soloist-dev/soloist v0.0.0
	github.com/soloist-dev/soloist/store/sqlitestore v0.0.0
	github.com/spf13/cobra v1.10.2
	go.temporal.io/api v1.63.5
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.49.0
	google.golang.org/grpc v1.83.2
)

require (
	github.com/StackExchange/wmi v0.0.0-20190523213315-cbe66965904d // indirect
	github.com/aws/aws-sdk-go-v2 v1.47.7 // indirect
	github.com/aws/aws-sdk-go-v2/config v1.33.15 // indirect
	github.com/aws/aws-sdk-go-v2/credentials v1.20.15 // indirect
	github.com/aws/aws-sdk-go-v2/feature/ec2/imds v1.20.7 // indirect
	github.com/aws/aws-sdk-go-v2/internal/configsources v1.5.10 // indirect
	github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.8.10 // indirect
	github.com/aws/aws-sdk-go-v2/internal/v4a v1.5.10 // indirect
	github.com/aws/aws-sdk-go-v2/service/dynamodb v1.73.1 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding v1.13.24 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/endpoint-discovery v1.13.10 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/presigned-url v1.14.10 // indirect
	github.com/aws/aws-sdk-go-v2/service/signin v1.12.3 // indirect
	github.com/aws/aws-sdk-go-v2/service/sso v1.39.3 // indirect
	github.com/aws/aws-sdk-go-v2/service/ssooidc v1.44.3 // indirect
	github.com/aws/aws-sdk-go-v2/service/sts v1.51.8 // indirect
	github.com/aws/smithy-go v1.28.8 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/go-ole/go-ole v1.2.4 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/hazelcast/hazelcast-go-client v1.4.2 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/nexus-rpc/nexus-proto-annotations v0.1.0 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/shirou/gopsutil/v3 v3.21.5 // indirect
	github.com/tklauser/go-sysconf v0.3.4 // indirect
	github.com/tklauser/numcpus v0.2.1 // indirect
	go.etcd.io/etcd/api/v3 v3.7.3 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.7.3 // indirect
	go.etcd.io/etcd/client/v3 v3.7.3 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-sql-driver/mysql v1.10.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/redis/go-redis/v9 v9.23.0
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/prometheus/client_golang v1.25.0
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/soloist-dev/soloist/internal/proof v0.0.0
	github.com/soloist-dev/soloist/metrics/prometheus v0.0.0
	github.com/soloist-dev/soloist/server v0.0.0
	github.com/soloist-dev/soloist/store/cassandrastore v0.0.0
	github.com/soloist-dev/soloist/store/dynamostore v0.0.0
	github.com/soloist-dev/soloist/store/etcdstore v0.0.0
	github.com/soloist-dev/soloist/store/hazelcaststore v0.0.0
	github.com/soloist-dev/soloist/store/mysqlstore v0.0.0
	github.com/soloist-dev/soloist/store/natsstore v0.0.0
	github.com/soloist-dev/soloist/store/pgstore v0.0.0
	github.com/soloist-dev/soloist/store/redisstore v0.0.0
	github.com/soloist-dev/soloist/store/temporalstore v0.0.0
	github.com/soloist-dev/soloist/store/zkstore v0.0.0
	github.com/spf13/pflag v1.0.9
	golang.org/x/tools v0.52.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	modernc.org/libc v1.79.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.61.1 // indirect
)

replace (
	github.com/soloist-dev/soloist => ../..
	github.com/soloist-dev/soloist/store/sqlitestore => ../../store/sqlitestore
)

replace github.com/soloist-dev/soloist/internal/proof => ../../internal/proof

replace github.com/soloist-dev/soloist/store/pgstore => ../../store/pgstore

replace github.com/soloist-dev/soloist/store/redisstore => ../../store/redisstore

replace github.com/soloist-dev/soloist/store/cassandrastore => ../../store/cassandrastore

replace github.com/soloist-dev/soloist/store/dynamostore => ../../store/dynamostore

replace github.com/soloist-dev/soloist/store/etcdstore => ../../store/etcdstore

replace github.com/soloist-dev/soloist/store/zkstore => ../../store/zkstore

replace github.com/soloist-dev/soloist/store/natsstore => ../../store/natsstore

replace github.com/soloist-dev/soloist/store/mysqlstore => ../../store/mysqlstore

replace github.com/soloist-dev/soloist/metrics/prometheus => ../../metrics/prometheus

replace github.com/soloist-dev/soloist/store/hazelcaststore => ../../store/hazelcaststore

replace github.com/soloist-dev/soloist/server => ../../server

replace github.com/soloist-dev/soloist/store/temporalstore => ../../store/temporalstore

module github.com/soloist-dev/soloist/store/cassandrastore

go 1.26.0

require (
	github.com/apache/cassandra-gocql-driver/v2 v2.1.2
	github.com/soloist-dev/soloist v0.0.0
)

require gopkg.in/inf.v0 v0.9.1 // indirect

replace github.com/soloist-dev/soloist => ../..

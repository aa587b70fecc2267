module github.com/soloist-dev/soloist/store/zkstore

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/soloist-dev/soloist v0.0.0
)

replace github.com/soloist-dev/soloist => ../..

module github.com/soloist-dev/soloist/cmd/soloist

go 1.26.0

require (
	github.com/soloist-dev/soloist v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.49.0
)

replace (
	github.com/soloist-dev/soloist => ../..
	github.com/soloist-dev/soloist/store/sqlitestore => ../../store/sqlitestore
)

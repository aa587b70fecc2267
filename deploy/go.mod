module github.com/soloist-dev/soloist/deploy

go 1.26.0

replace github.com/soloist-dev/soloist => ..

require (
	github.com/soloist-dev/soloist v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)

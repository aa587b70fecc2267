module github.com/soloist-dev/soloist/adapter/robfig

go 1.26.0

require (
	github.com/robfig/cron/v3 v3.0.1
	github.com/soloist-dev/soloist v0.0.0
)

replace github.com/soloist-dev/soloist => ../..

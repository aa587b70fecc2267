module github.com/soloist-dev/soloist/test/croncompare

go 1.26.0

require (
	github.com/adhocore/gronx v1.20.4
	github.com/hashicorp/cronexpr v1.1.3
	github.com/netresearch/go-cron v0.15.0
	github.com/reugn/go-quartz v0.15.2
	github.com/robfig/cron/v3 v3.0.1
	github.com/soloist-dev/soloist v0.0.0
)

require github.com/stretchr/testify v1.12.1 // indirect

replace github.com/soloist-dev/soloist => ../..

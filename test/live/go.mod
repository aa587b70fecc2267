module github.com/soloist-dev/soloist/test/live

go 1.26.0

require github.com/soloist-dev/soloist v0.0.0

replace github.com/soloist-dev/soloist => ../..

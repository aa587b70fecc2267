module github.com/soloist-dev/soloist

go 1.26.0
